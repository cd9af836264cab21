"""`GET /tasks/stats`: counts with a bound, and what waits and runs where."""

import asyncio
from typing import Any

from tests.conftest import serving
from tests.integration.api_calls import BODY, LATER, TASKS, Api, call, put, submitted
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection, joined

from gnomon.model.tasks.lifecycle import Status
from gnomon.store.postgres.database import Database

STATS = f"{TASKS}/stats"
MANY = 12_000
NOTHING = {"count": 0, "capped": False}

_ID = """
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n), 12, '0')
     || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid
"""


def counts(found: Any) -> dict[str, int]:
    return {name: each["count"] for name, each in found["statuses"].items() if each["count"]}


def loads(found: Any, kind: str, key: str) -> dict[str, tuple[int, int]]:
    return {
        each[key]: (each["ready"]["count"], each["running"]["count"])
        for each in found[kind]
        if each["ready"]["count"] or each["running"]["count"]
    }


async def test_nothing_is_counted_where_there_is_nothing(api: Api) -> None:
    found = await call(api, "GET", STATS, 200)
    assert found["statuses"] == {status.value: NOTHING for status in Status}
    assert [each["priority"] for each in found["lanes"]] == ["CRITICAL", "HIGH", "MEDIUM", "LOW"]
    assert (found["task_types"], found["queues"]) == ([], [])


async def prepared(api: Api, database: Database, connection: Connection) -> str:
    """Tasks of every status; the id of a cron job whose run is among them."""
    node = await joined(database)
    job = await call(
        api, "POST", "/api/v1/cron-jobs", 201,
        {"name": "j", "task_type": "run", "interval_seconds": 86_400, "queue": "cron"},
    )  # fmt: skip
    await call(api, "POST", "/api/v1/cron-jobs/j/trigger", 202)
    ids = {}
    for name, body in {
        "scheduled": LATER | {"tags": ["x"]},
        "ready": BODY | {"priority": "HIGH", "queue": "q"},
        "old": BODY | {"priority": "HIGH", "task_type": "old", "tags": ["x", "y"]},
        "failed": LATER,
        "running": BODY | {"queue": "q"},
        "paused": LATER,
        "dead": LATER,
        "cancelled": LATER | {"tags": ["x"]},
        "resolved": LATER,
    }.items():
        ids[name] = (await submitted(api, body))["task_id"]
    await put(connection, ids["old"], "due_at = gnomon.now() - interval '1 hour'")
    await put(connection, ids["failed"], "attempt = 1")
    await put(connection, ids["running"], f"state = 1, fence = 1, attempt = 1, node = '{node}'")
    await put(connection, ids["dead"], "state = 4")
    await put(connection, ids["resolved"], "state = 4")
    await call(api, "POST", f"{TASKS}/{ids['paused']}/pause", 200)
    await call(api, "POST", f"{TASKS}/{ids['cancelled']}/cancel", 200)
    await call(api, "POST", f"/api/v1/dead-letters/{ids['resolved']}/archive", 200)
    return str(job["cron_job_id"])


async def test_all_statuses_lanes_types_and_queues(
    api: Api, database: Database, connection: Connection
) -> None:
    job_id = await prepared(api, database, connection)
    found = await call(api, "GET", STATS, 200)
    assert counts(found) == {
        "SCHEDULED": 1, "READY": 3, "RUNNING": 1, "FAILED": 1, "PAUSED": 1, "DEAD_LETTERED": 2,
        "CANCELLED": 1,
    }  # fmt: skip
    assert not any(each["capped"] for each in found["statuses"].values())
    assert loads(found, "lanes", "priority") == {"HIGH": (2, 0), "MEDIUM": (1, 1)}
    assert loads(found, "task_types", "task_type") == {"mail": (1, 1), "old": (1, 0), "run": (1, 0)}
    assert loads(found, "queues", "queue") == {"q": (1, 1), "cron": (1, 0), None: (1, 0)}
    ages = {each["priority"]: each["oldest_ready_seconds"] for each in found["lanes"]}
    assert 3600 <= ages["HIGH"] < 4000
    assert 0 <= ages["MEDIUM"] < 400
    assert (ages["CRITICAL"], ages["LOW"]) == (None, None)

    async def chosen(**query: str) -> dict[str, int]:
        return counts(await call(api, "GET", STATS, 200, params=query))

    assert await chosen(tag="x") == {"SCHEDULED": 1, "READY": 1, "CANCELLED": 1}
    assert await chosen(tag="x", priority="HIGH") == {"READY": 1}
    assert await chosen(queue="q") == {"READY": 1, "RUNNING": 1}
    assert await chosen(task_type="old") == {"READY": 1}
    assert await chosen(cron_job_id=job_id) == {"READY": 1}
    assert await chosen(due_before="2020-01-01T00:00:00Z") == {}
    assert await chosen(due_after="2020-01-01T00:00:00Z", status="DEAD_LETTERED") == {
        "DEAD_LETTERED": 2
    }
    only = await call(api, "GET", STATS, 200, params={"status": "READY", "task_type": "mail"})
    assert only["statuses"] == {"READY": {"count": 1, "capped": False}}
    assert loads(only, "task_types", "task_type") == {"mail": (1, 0)}
    for wrong in ("status=LATE", "limit=5", "cursor=x", "due_after=now"):
        problem = await call(api, "GET", f"{STATS}?{wrong}", 422)
        assert problem["errors"][0]["pointer"] == f"/{wrong.partition('=')[0]}"


async def test_only_tasks_whose_ids_begin_with_given_digits_are_counted(
    api: Api, database: Database, connection: Connection
) -> None:
    await prepared(api, database, connection)
    everything = counts(await call(api, "GET", STATS, 200))
    for status in everything:
        [one, *_] = (await call(api, "GET", TASKS, 200, params={"status": status}))["tasks"]
        found = await call(api, "GET", STATS, 200, params={"id_prefix": one["task_id"]})
        assert counts(found) == {status: 1}
        loaded = {"READY": [(1, 0)], "RUNNING": [(0, 1)]}.get(status, [])
        assert list(loads(found, "task_types", "task_type").values()) == loaded
    assert counts(await call(api, "GET", STATS, 200, params={"id_prefix": "f"})) == {}
    assert counts(await call(api, "GET", STATS, 200, params={"id_prefix": "0"})) == everything


async def test_a_count_stops_where_it_is_capped(api: Api, connection: Connection) -> None:
    await connection.execute(f"""
        INSERT INTO gnomon.task_archive (
            tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
            timeout_seconds, task_type, target
        )
        SELECT 'default', {_ID}, 2, 10, 0, gnomon.now(), gnomon.now(), 1, 1, 30, 't', '{{}}'
        FROM generate_series(1, {MANY}) AS n;
        INSERT INTO gnomon.task (tenant_id, id, state, due_at, task_type, target)
        SELECT 'default', {_ID}, 0,
            gnomon.now() + CASE WHEN n % 4 = 0 THEN 1 ELSE -1 END * interval '1 hour', 'big', '{{}}'
        FROM generate_series(1, {2 * MANY}) AS n;
        INSERT INTO gnomon.task (tenant_id, id, state, due_at, task_type, target)
        SELECT 'default', {_ID}, 0, gnomon.now() - interval '2 hours', 'small', '{{}}'
        FROM generate_series({2 * MANY + 1}, {2 * MANY + 5}) AS n
    """)
    found = await call(api, "GET", STATS, 200)
    full = {"count": 10_000, "capped": True}
    assert found["statuses"]["COMPLETED"] == full
    assert found["statuses"]["READY"] == full
    assert found["statuses"]["SCHEDULED"] == {"count": 6_000, "capped": False}
    assert found["statuses"]["PAUSED"] == {"count": 0, "capped": True}
    by_type = {each["task_type"]: each for each in found["task_types"]}
    assert by_type["big"]["ready"] == full
    assert by_type["small"]["ready"] == {"count": 5, "capped": False}
    assert by_type["small"]["oldest_ready_seconds"] >= 7200
    small = await call(api, "GET", STATS, 200, params={"task_type": "small"})
    assert small["statuses"]["READY"] == {"count": 5, "capped": False}


async def test_many_flows_share_what_is_examined(api: Api, connection: Connection) -> None:
    await connection.execute(f"""
        INSERT INTO gnomon.task (tenant_id, id, state, due_at, task_type, target)
        SELECT 'default', {_ID}, 0, gnomon.now() - n * interval '1 second', 't' || n % 1200, '{{}}'
        FROM generate_series(1, 2400) AS n
    """)
    found = await call(api, "GET", STATS, 200)
    assert found["statuses"]["READY"] == {"count": 2_000, "capped": True}
    assert len(found["task_types"]) == 100


async def test_a_slow_count_gives_up(api: Api, connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("LOCK TABLE gnomon.task IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(20):
            problem = await call(api, "GET", STATS, 503)
    assert problem["type"] == "urn:gnomon:problem:unavailable"


async def test_tenants_count_their_own_tasks(database_dsn: str, database: Database) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    _, theirs = await make_key(database, "other")
    async with serving(database_dsn, auth_enabled=True) as api:
        task = {"task_type": "mail"}
        await call(api, "POST", TASKS, 202, task, headers=bearer(mine))
        assert counts(await call(api, "GET", STATS, 200, headers=bearer(mine))) == {"READY": 1}
        found = await call(api, "GET", STATS, 200, headers=bearer(theirs))
        assert (counts(found), found["task_types"]) == ({}, [])
