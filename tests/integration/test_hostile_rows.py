"""Rows that no API would store any more, or that somebody wrote by hand: a node outlives them."""

import json
import re
from datetime import datetime
from typing import Any

import aiohttp
import pytest
from tests.integration.bulk_calls import Stepper
from tests.integration.cron_support import created, make_due, planning
from tests.integration.nodes import call_of, running_node
from tests.integration.support import (
    Connection,
    database_now,
    end_of,
    joined,
    key_of,
    settlement,
    store,
    submission,
)

from gnomon.model.fleet.pool import EVERYTHING, Work
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster

ONCE = RetryPolicy(max_retries=0)


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


async def another_task_runs(database: Database, connection: Connection, now: datetime) -> None:
    _, new = call_of(now, "echo", tenant_id="innocent")
    await store(database, new)
    assert (await end_of(connection, key_of(new)))["state"] == 10


async def test_a_host_name_that_no_index_holds(
    database: Database, connection: Connection, database_dsn: str, now: datetime
) -> None:
    url = "http://" + ".".join(["q" * 60] * 60) + "/hook"
    assert len(url) > 3659
    tasks = [submission(now, target=HttpTarget(url), retry_policy=ONCE) for _ in range(25)]
    keys = await store(database, *tasks)
    for _ in range(2):  # and after a restart
        async with running_node(database_dsn):
            for key in keys:
                await end_of(connection, key)
            await another_task_runs(database, connection, now)


UNUSABLE: list[Any] = [
    {"type": "nonsense"},
    {"type": "http", "url": "no url"},
    {"type": "python"},
    [],
]


async def test_targets_that_cannot_be_read(
    database: Database, connection: Connection, database_dsn: str, now: datetime
) -> None:
    """Tasks by plain SQL: each becomes a dead letter that says why, and its batch mates run."""
    tasks = [call_of(now, "echo")[1] for _ in range(2 * len(UNUSABLE))]
    keys = await store(database, *tasks)
    for key, target in zip(keys, UNUSABLE, strict=False):
        await connection.execute(
            "UPDATE gnomon.task SET target = $2 WHERE id = $1", key.id, json.dumps(target)
        )
    async with running_node(database_dsn):
        for key in keys[len(UNUSABLE) :]:
            assert (await end_of(connection, key))["state"] == 10
        for key in keys[: len(UNUSABLE)]:
            row = await end_of(connection, key)
            assert row["state"] == 4
            assert re.search("cannot be (read|called)", row["last_error"])
        await another_task_runs(database, connection, now)


@pytest.mark.parametrize("change", ["lane = 9", "lane = -1", "delivery = 9", "delivery = -1"])
async def test_numbers_that_stand_for_nothing(
    database: Database, connection: Connection, database_dsn: str, now: datetime, change: str
) -> None:
    """Each becomes a dead letter that says why, and those claimed with it run."""
    bad, *good = await store(database, *(call_of(now, "echo")[1] for _ in range(3)))
    await connection.execute(f"UPDATE gnomon.task SET {change} WHERE id = $1", bad.id)
    async with running_node(database_dsn):
        for key in good:
            assert (await end_of(connection, key))["state"] == 10
        row = await end_of(connection, bad)
        assert row["state"] == 4
        column, _, number = change.partition(" = ")
        assert re.search(
            rf"cannot be read: {column} must be one of .*; got {number}", row["last_error"]
        )
        await another_task_runs(database, connection, now)


@pytest.mark.parametrize("keys", ["nonsense", "[]", '{"per-user": "\\u0000"}'])
async def test_limit_keys_that_cannot_be_read(
    database: Database, connection: Connection, database_dsn: str, now: datetime, keys: str
) -> None:
    """They count as without a value, and keep nobody from getting permits."""
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, key, concurrency)"
        " VALUES ('default', 'per-user', '/user', 5)"
    )
    tasks = await store(database, *(call_of(now, "echo")[1] for _ in range(3)))
    await connection.execute(
        "UPDATE gnomon.task SET limit_keys = $2 WHERE id = $1", tasks[0].id, keys
    )
    async with running_node(database_dsn):
        for key in tasks:
            assert (await end_of(connection, key))["state"] == 10


DEEP = '{"a": ' + "[" * 2000 + "]" * 2000 + ', "type": "http", "url": "http://127.0.0.1/"}'


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("target", '{"type": "nonsense"}'),
        ("target", DEEP),
        ("retry_policy", DEEP),
        ("delivery", 9),
        ("lane", 9),
    ],
)
async def test_a_dead_node_that_ran_what_cannot_be_read(
    database: Database,
    connection: Connection,
    database_dsn: str,
    now: datetime,
    column: str,
    value: Any,
) -> None:
    bad, good = await store(database, *(call_of(now, "echo")[1] for _ in range(2)))
    node = await joined(database)
    dispatch = PostgresDispatch(database, grace_seconds=60.0)
    assert len((await dispatch.claim(node, [bad, good])).deliveries) == 2
    await connection.execute(f"UPDATE gnomon.task SET {column} = $2 WHERE id = $1", bad.id, value)
    await connection.execute("UPDATE gnomon.node SET dead = true WHERE incarnation = $1", node)
    async with running_node(database_dsn):
        assert (await end_of(connection, good))["state"] == 10
        assert (await end_of(connection, bad))["state"] == 4


async def test_a_flow_of_a_lane_that_does_not_exist(
    database: Database, connection: Connection, now: datetime
) -> None:
    """It is passed over, and the flows behind it are found."""
    tasks = [submission(now, tenant_id=name) for name in ("a", "b", "c")]
    keys = await store(database, *tasks)
    await connection.execute("UPDATE gnomon.task SET lane = 9 WHERE id = $1", keys[1].id)
    dispatch = PostgresDispatch(database, grace_seconds=60.0)
    found, after = [], None
    for _ in keys:
        (flow,) = await dispatch.flows(after, 1)
        found.append((flow.key.tenant_id, flow.work is not None))
        after = flow.key
    assert found == [("a", True), ("b", False), ("c", True)]
    assert await dispatch.flows(after, 1) == []


async def test_a_pool_that_cannot_be_read(database: Database, connection: Connection) -> None:
    """The roster goes on; what that node serves is served by the others."""
    broken, sound = await joined(database, "broken"), await joined(database, "sound")
    await connection.execute("UPDATE gnomon.node SET serves = '[]' WHERE incarnation = $1", broken)
    pools = {node.incarnation: node.pool for node in await PostgresRoster(database).roster()}
    assert pools[sound] == EVERYTHING
    assert not pools[broken].accepts(Work("default", Lane.LOW))


async def test_runs_of_a_job_that_cannot_be_read(
    database: Database, connection: Connection
) -> None:
    """They start one at a time, and those of other jobs as ever."""
    node, dispatch = await joined(database), PostgresDispatch(database, grace_seconds=60.0)
    sound, broken = [await created(database, name=name) for name in ("sound", "broken")]
    firsts = [*await make_due(connection, sound), *await make_due(connection, broken)]
    ended, _ = (await dispatch.claim(node, firsts)).deliveries
    await dispatch.settle([settlement(ended)])
    (starts,), (overlaps,) = await make_due(connection, sound), await make_due(connection, broken)
    await connection.execute("UPDATE gnomon.cron_job SET definition = '[]' WHERE name = 'broken'")
    admission = await planning(database).claim_runs(node, [starts, overlaps])
    assert [each.key for each in admission.claim.deliveries] == [starts]
    assert list(admission.settled) == [overlaps]


SHOWN = [
    ("lane = 9", "priority", "LOW"),
    ("delivery = 9", "delivery", "at_most_once"),
    ("target = '[]'", "target", {"type": "http", "url": "", "method": "POST", "headers": {}}),
    ("tags = '{}'", "tags", []),
    ("retry_policy = '[]'", None, None),
]


@pytest.mark.parametrize(("change", "field", "value"), SHOWN)
async def test_lists_show_what_can_be_read(
    api: aiohttp.ClientSession,
    database: Database,
    connection: Connection,
    now: datetime,
    change: str,
    field: str | None,
    value: Any,
) -> None:
    bad, _ = await store(database, *(submission(now) for _ in range(2)))
    await connection.execute("UPDATE gnomon.task SET state = 4")
    await connection.execute(f"UPDATE gnomon.task SET {change} WHERE id = $1", bad.id)
    for path, member in (("tasks", "tasks"), ("dead-letters", "dead_letters")):
        async with api.get(f"/api/v1/{path}") as answer:
            assert answer.status == 200, await answer.text()
            shown = {task["task_id"]: task for task in (await answer.json())[member]}
        assert len(shown) == 2
        if field is not None:
            assert shown[str(bad.id)][field] == value
    found = await Stepper(database).done(api, {"action": "retry"})
    assert found["changed"] == 2


async def test_lists_leave_out_what_cannot_be_shown(
    api: aiohttp.ClientSession, database: Database, connection: Connection, now: datetime
) -> None:
    good, bad = await store(database, *(submission(now) for _ in range(2)))
    await connection.execute("UPDATE gnomon.task SET state = 7 WHERE id = $1", bad.id)
    async with api.get("/api/v1/tasks") as answer:
        assert answer.status == 200, await answer.text()
        assert [t["task_id"] for t in (await answer.json())["tasks"]] == [str(good.id)]
    for name in ("first", "second", "third"):
        await created(database, name=name)
    await connection.execute("UPDATE gnomon.cron_job SET definition = '[]' WHERE name = 'second'")
    names, cursor = [], ""
    while cursor is not None:
        async with api.get(f"/api/v1/cron-jobs?limit=1&{cursor}") as answer:
            assert answer.status == 200, await answer.text()
            page = await answer.json()
        names += [each["name"] for each in page["cron_jobs"]]
        cursor = page["next_cursor"] and f"cursor={page['next_cursor']}"
    assert sorted(names) == ["first", "third"]


@pytest.mark.parametrize("field", ["target", "callback_url"])
@pytest.mark.parametrize(
    ("host", "said"),
    [("q." * 130, "at most 253"), ("q" * 64 + ".org", "1 to 63")],
)
async def test_a_host_name_that_cannot_be_is_refused(
    shared_api: aiohttp.ClientSession, field: str, host: str, said: str
) -> None:
    url = f"http://{host}/hook"
    asked: Any = {"target": {"type": "http", "url": url}} if field == "target" else {field: url}
    for path, more in (
        ("/api/v1/tasks", {}),
        ("/api/v1/cron-jobs", {"name": "job", "cron_expression": "* * * * *"}),
    ):
        async with shared_api.post(path, json={"task_type": "t", **asked, **more}) as answer:
            problem = await answer.json()
        assert answer.status == 422, problem
        assert said in problem["detail"]
        assert problem["errors"][0]["pointer"].startswith(f"/{field}")


async def test_a_host_name_as_long_as_any_can_be(api: aiohttp.ClientSession) -> None:
    host = ".".join(["q" * 63] * 3 + ["q" * 61])
    for name in (host, host + ".", "[::1]", "127.0.0.1"):
        async with api.post(
            "/api/v1/tasks", json={"task_type": "t", "callback_url": f"http://{name}/"}
        ) as answer:
            assert answer.status == 202, await answer.text()
