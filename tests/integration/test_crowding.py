"""Lanes in which too much waits: new tasks are refused, and all else goes on."""

import asyncio
from typing import Any

from tests.conftest import serving
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.quota_calls import give, over
from tests.integration.support import Connection, database_now
from tests.waiting import eventually

from gnomon.cli.admin.checks.work import crowding
from gnomon.clock import SystemClock, new_id, new_incarnation
from gnomon.settings import SharingSettings
from gnomon.store.crowd_watch import CrowdWatch
from gnomon.store.postgres.crowding.crowding import PostgresCrowding
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.tenant_cache import TenantCache

RUNS = "/api/v1/workflow-runs"
LOW: dict[str, Any] = {"task_type": "mail", "priority": "LOW"}


async def fill(connection: Connection, tenant_id: str, number: int) -> None:
    """Due tasks of all lanes."""
    now = await database_now(connection)
    await connection.execute(
        """
        INSERT INTO gnomon.task (tenant_id, id, lane, task_type, target, due_at)
        SELECT $1, u.id, u.number % 4, 'x', '{}', gnomon.now()
        FROM unnest($2::uuid[]) WITH ORDINALITY AS u (id, number)
        """,
        tenant_id,
        [new_id(now) for _ in range(number)],
    )


async def refused(api: Api, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The problem, and the seconds to wait, once tasks like this are refused."""
    found: list[tuple[dict[str, Any], int]] = []

    async def is_refused() -> bool:
        async with api.post(TASKS, json=body) as answer:
            if answer.status == 429:
                found.append((await answer.json(), int(answer.headers["Retry-After"])))
            return answer.status == 429

    await eventually(is_refused)
    return found[0]


async def test_a_lane_over_the_quota_of_its_tenant_is_refused(
    api: Api, connection: Connection
) -> None:
    await give(connection, api, ready_tasks=3)
    keyed = {**LOW, "idempotency_key": "k"}
    first = await call(api, "POST", TASKS, 202, keyed)
    problem, wait = await refused(api, LOW)
    over(problem, "ready_tasks", 3, problem["used"])
    assert problem["used"] >= 3
    assert "LOW tasks are due and wait" in problem["detail"]
    assert 1 <= wait <= 90
    await call(api, "POST", f"{TASKS}/batch", 429, {"tasks": [LOW]})
    nodes = {"first": {**LOW, "priority": "HIGH"}, "then": {**LOW, "after": ["first"]}}
    await call(api, "POST", RUNS, 202, {"definition": {"nodes": nodes}})
    await call(api, "POST", RUNS, 429, {"definition": {"nodes": {"first": LOW}}})
    # A repeated request is answered as before; another lane, and a later time, are not refused.
    assert (await call(api, "POST", TASKS, 202, keyed))["task_id"] == first["task_id"]
    await call(api, "POST", TASKS, 202, {**LOW, "priority": "HIGH"})
    await call(api, "POST", TASKS, 202, {**LOW, "delay_seconds": 120})
    told = await call(api, "GET", f"{TASKS}/{first['task_id']}/explain", 200)
    assert any("the quota ready_tasks is 3" in fact for fact in told["facts"])
    async with api.get("/metrics") as answer:
        assert "gnomon_lanes_crowded 1.0" in await answer.text()
    check = await crowding(connection)
    assert not check.ok
    assert "LOW of tenant default" in check.detail
    await connection.execute("DELETE FROM gnomon.task")

    async def is_accepted() -> bool:
        async with api.post(TASKS, json=LOW) as answer:
            return answer.status == 202

    await eventually(is_accepted)
    assert (await crowding(connection)).ok


async def test_a_batch_that_was_accepted_is_answered_as_before_once_its_lane_is_crowded(
    api: Api, connection: Connection
) -> None:
    await give(connection, api, ready_tasks=3)
    path = f"{TASKS}/batch"
    plain = {"tasks": [LOW, LOW]}
    keyed = {"tasks": [{**LOW, "idempotency_key": key} for key in ("k1", "k2")]}
    headers = {"Idempotency-Key": "b"}
    first = await call(api, "POST", path, 202, plain, headers=headers)
    second = await call(api, "POST", path, 202, keyed)
    await refused(api, LOW)
    assert await call(api, "POST", path, 202, plain, headers=headers) == first
    assert (await call(api, "POST", path, 202, keyed))["tasks"] == second["tasks"]
    await call(api, "POST", path, 429, {"tasks": [*keyed["tasks"], LOW]})
    await call(api, "POST", path, 429, plain, headers={"Idempotency-Key": "c"})


async def test_who_has_more_than_its_share_of_all_is_refused_first(
    database_dsn: str, connection: Connection, database: Database
) -> None:
    await connection.execute("INSERT INTO gnomon.tenant (id, plan) VALUES ('other', 'unlimited')")
    await fill(connection, "other", 30)
    async with serving(database_dsn, sharing_max_ready_tasks=20) as api:
        await asyncio.gather(*(call(api, "POST", TASKS, 202, LOW) for _ in range(5)))
        directory = TenantCache(PostgresTenantReader(database), SystemClock(), {})

        async def is_known() -> bool:
            await directory.load()
            return bool(directory.crowds)

        await eventually(is_known)
        assert {key.tenant_id for key in directory.crowds} == {"other"}
        assert all(crowd.shared for crowd in directory.crowds.values())
        await call(api, "POST", TASKS, 202, LOW)


async def test_one_process_looks_and_what_it_said_ends_with_it(
    database: Database, connection: Connection
) -> None:
    directory = TenantCache(PostgresTenantReader(database), SystemClock(), {})
    await directory.load()
    await fill(connection, "default", 4_000)
    watches = [
        CrowdWatch(
            PostgresCrowding(database),
            SharingSettings(max_ready_tasks=1_000),
            directory,
            SystemClock(),
            new_incarnation(),
        )
        for _ in range(2)
    ]
    said = await watches[0].run_once()
    assert len(said) == 4
    assert await watches[1].run_once() == {}
    await directory.load()
    assert directory.crowds == said
    await connection.execute(
        "UPDATE gnomon.revision SET crowded_at = crowded_at - interval '15 seconds'"
    )
    await directory.load()
    assert directory.crowds == {}
    # Where counting all would take long, a part of the shards stands for all.
    store = PostgresCrowding(database)
    for most in (1_000, 300_000):
        (found,) = (await store.of_tenants(most, turn=1)).values()
        assert 3_000 <= found <= 5_000, most
