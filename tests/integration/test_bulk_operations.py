"""Bulk operations, over real sockets and with real nodes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import pytest
from tests.conftest import serving
from tests.integration.api_calls import BODY, LATER, TASKS, Api, call, put, submitted
from tests.integration.bulk_calls import BULK, Stepper
from tests.integration.identity import bearer, make_key
from tests.integration.nodes import running_node
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.model.fleet.retention import RowKind
from gnomon.store.ports.work.bulk import MOST_OPEN
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.wiring.node_inputs import Served

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"

_ID = """
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - $2 + n), 12, '0')
     || '7' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid
"""
# Dead letters of a handler that nobody has: once retried, they wait.
_DEAD = f"""
    INSERT INTO gnomon.task (
        tenant_id, id, state, execute_at, due_at, task_type, target, attempt, retries_left,
        last_error
    )
    SELECT $1, {_ID}, 4, gnomon.now(), gnomon.now(), 'nobody',
           '{{"type": "python", "function": "nobody"}}', 4, 0, $4
    FROM generate_series(1, $3::integer) AS n
"""


async def fill(
    connection: Connection, number: int, error: str = "boom", tenant: str = "default", ago: int = 0
) -> None:
    """So many dead letters, the last of them created so many milliseconds ago."""
    await connection.execute(_DEAD, tenant, number + ago, number, error)


async def dead_letters(connection: Connection, error: str = "boom") -> int:
    number: int = await connection.fetchval(
        "SELECT count(*) FROM gnomon.task WHERE state = 4 AND last_error = $1", error
    )
    return number


async def ended(api: Api, operation_id: str, **options: Any) -> Any:
    async def look() -> Any:
        found = await call(api, "GET", f"{BULK}/{operation_id}", 200, **options)
        return found if found["status"] != "RUNNING" else None

    return await eventually(look, timeout=60)


async def test_ten_thousand_dead_letters_are_retried_by_error_while_new_ones_come(
    api: Api, database_dsn: str, connection: Connection
) -> None:
    await fill(connection, 10_000, "HTTP 503 from mail", ago=1000)
    await fill(connection, 50, "other", ago=1000)
    chosen = {"action": "retry", "filter": {"error": "503"}}
    seen = await call(api, "POST", BULK, 200, chosen | {"dry_run": True})
    assert (seen["operation_id"], seen["total"], seen["total_capped"]) == (None, 10_000, False)
    assert len(seen["examples"]) == 5
    begun = await call(api, "POST", BULK, 202, chosen | {"expect": 10_000})
    async with running_node(database_dsn, served=Served(handlers=frozenset())):
        for _ in range(5):
            await fill(connection, 20, "HTTP 503 from mail", ago=-10_000)
        found = await ended(api, begun["operation_id"])
    assert (found["status"], found["done"], found["changed"]) == ("FINISHED", 10_000, 10_000)
    assert found["ended_at"] is not None
    assert await dead_letters(connection, "HTTP 503 from mail") == 100
    assert await dead_letters(connection, "other") == 50
    waiting = await connection.fetchrow(
        "SELECT count(*) AS number, min(retries_left) AS least FROM gnomon.task WHERE state = 0"
    )
    assert waiting is not None
    assert (waiting["number"], waiting["least"]) == (10_000, 3)


async def test_what_dies_after_the_start_is_not_touched(
    api: Api, database: Database, connection: Connection
) -> None:
    old, young = (await submitted(api))["task_id"], (await submitted(api))["task_id"]
    await put(connection, old, "state = 4, due_at = gnomon.now()")
    begun = await call(api, "POST", BULK, 202, {"action": "retry"})
    await put(connection, young, "state = 4, due_at = gnomon.now()")
    await Stepper(database).finish(begun)
    assert (await call(api, "GET", f"{TASKS}/{old}", 200))["status"] == "READY"
    assert (await call(api, "GET", f"{TASKS}/{young}", 200))["status"] == "DEAD_LETTERED"


_NODE = """
import asyncio, sys
from tests.integration.nodes import SETTINGS
from gnomon.wiring.processes import run_node
asyncio.run(run_node(SETTINGS, sys.argv[1], lambda _: None))
"""


async def test_another_node_goes_on_after_one_was_killed(
    api: Api, database_dsn: str, connection: Connection
) -> None:
    await fill(connection, 6_000, ago=1000)
    begun = await call(api, "POST", BULK, 202, {"action": "archive"})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _NODE, database_dsn, env=os.environ | {"PYTHONPATH": str(Path.cwd())}
    )

    async def in_the_middle() -> bool:
        found = await call(api, "GET", f"{BULK}/{begun['operation_id']}", 200)
        return 0 < int(found["done"]) < 6_000

    try:
        await eventually(in_the_middle)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    left = await dead_letters(connection)
    assert 0 < left < 6_000
    async with running_node(database_dsn):
        found = await ended(api, begun["operation_id"])
    assert (found["changed"], found["refused"]) == (6_000, 0)
    archived = await connection.fetchval(
        "SELECT count(*) FROM gnomon.task_archive WHERE resolution = 'archived'"
    )
    assert archived == 6_000


async def test_two_operations_on_the_same_tasks(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 300, ago=1000)
    first = await call(api, "POST", BULK, 202, {"action": "archive"})
    second = await call(api, "POST", BULK, 202, {"action": "retry"})
    stepper = Stepper(database)
    more = [True, True]
    while any(more):  # at the same time, chunk by chunk
        more = list(await asyncio.gather(stepper.chunk(first, 50), stepper.chunk(second, 50)))
    ends = [await call(api, "GET", f"{BULK}/{o['operation_id']}", 200) for o in (first, second)]
    assert [each["status"] for each in ends] == ["FINISHED", "FINISHED"]
    assert sum(each["changed"] for each in ends) == 300
    assert await dead_letters(connection) == 0


async def test_two_holders_touch_no_task_twice(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 400, ago=1000)
    begun = await call(api, "POST", BULK, 202, {"action": "retry"})
    stepper = Stepper(database)
    await asyncio.gather(*(stepper.finish(begun) for _ in range(4)))
    await stepper.finish(begun)
    found = await call(api, "GET", f"{BULK}/{begun['operation_id']}", 200)
    assert (found["status"], found["changed"], found["refused"]) == ("FINISHED", 400, 0)


async def test_a_stopped_one_changes_nothing_more(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 100, ago=1000)
    begun = await call(api, "POST", BULK, 202, {"action": "delete", "filter": {"error": "boom"}})
    stepper = Stepper(database)
    assert await stepper.chunk(begun, 30)
    path = f"{BULK}/{begun['operation_id']}"
    for _ in range(2):
        stopped = await call(api, "POST", f"{path}/stop", 200)
        assert (stopped["status"], stopped["changed"]) == ("STOPPED", 30)
    assert not await stepper.chunk(begun, 30)
    assert await dead_letters(connection) == 70
    await call(api, "POST", f"{BULK}/{UUID(int=1)}/stop", 404)
    await call(api, "GET", f"{BULK}/nonsense", 404)


async def test_the_number_is_confirmed(api: Api, connection: Connection) -> None:
    await fill(connection, 5, ago=1000)
    problem = await call(api, "POST", BULK, 409, {"action": "retry", "expect": 4})
    assert "you expect 4 tasks, but 5 match now" in problem["detail"]
    assert (await call(api, "GET", BULK, 200))["bulk_operations"] == []
    await call(api, "POST", BULK, 202, {"action": "retry", "expect": 5})
    assert len((await call(api, "GET", BULK, 200))["bulk_operations"]) == 1


async def test_cancel_reschedule_and_delete(
    api: Api, database: Database, connection: Connection
) -> None:
    tagged = LATER | {"tags": ["x"]}
    waiting, running, paused = [(await submitted(api, tagged))["task_id"] for _ in range(3)]
    other = (await submitted(api))["task_id"]
    await put(connection, running, "state = 1, fence = fence + 1")
    await put(connection, paused, "state = 2")
    stepper, chosen = Stepper(database), {"filter": {"tag": "x"}}

    moved = {"action": "reschedule", "execute_at": "2040-01-01T00:00:00Z"} | chosen
    begun = await call(api, "POST", BULK, 202, moved)
    await stepper.finish(begun)
    found = await call(api, "GET", f"{BULK}/{begun['operation_id']}", 200)
    assert (found["changed"], found["refused"]) == (2, 1)
    assert found["refusals"] == [{"reason": "it is RUNNING", "count": 1}]
    for each in (waiting, paused):
        task = await call(api, "GET", f"{TASKS}/{each}", 200)
        assert task["execute_at"] == "2040-01-01T00:00:00Z"

    for interrupt, changed in ((False, 2), (True, 1)):
        begun = await call(
            api, "POST", BULK, 202, {"action": "cancel", "interrupt": interrupt} | chosen
        )
        await stepper.finish(begun)
        found = await call(api, "GET", f"{BULK}/{begun['operation_id']}", 200)
        assert found["changed"] == changed
    assert (await call(api, "GET", f"{TASKS}/{waiting}", 200))["status"] == "CANCELLED"
    assert (await call(api, "GET", f"{TASKS}/{running}", 200))["cancel_requested"]

    begun = await call(api, "POST", BULK, 202, {"action": "delete"} | chosen)
    await stepper.finish(begun)
    await call(api, "GET", f"{TASKS}/{waiting}", 404)
    await call(api, "GET", f"{TASKS}/{paused}", 404)
    await call(api, "GET", f"{TASKS}/{running}", 200)
    assert (await call(api, "GET", f"{TASKS}/{other}", 200))["status"] == "SCHEDULED"


async def test_discarded_dead_letters_are_kept_as_such(
    api: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 3, ago=1000)
    waiting = (await submitted(api))["task_id"]
    found = await Stepper(database).done(api, {"action": "discard"})
    assert (found["total"], found["changed"], found["refused"]) == (3, 3, 0)
    rows = await connection.fetch("SELECT resolution, state FROM gnomon.task_archive")
    assert [tuple(row) for row in rows] == [("discarded", 13)] * 3
    assert (await call(api, "GET", f"{TASKS}/{waiting}", 200))["status"] == "SCHEDULED"


async def test_wrong_requests_say_what_would_be_right(api: Api) -> None:
    for body, pointer in (
        ({"action": "retry", "filter": {"status": "COMPLETED"}}, "/filter/status"),
        ({"action": "reschedule"}, "/execute_at"),
        ({"action": "cancel", "delay_seconds": 1}, "/execute_at"),
        ({"action": "archive", "interrupt": True}, "/interrupt"),
        ({"action": "cancel", "filter": {"id_prefix": "f" * 33}}, "/filter/id_prefix"),
        ({"action": "explode"}, "/action"),
    ):
        problem = await call(api, "POST", BULK, 422, body)
        assert problem["errors"][0]["pointer"] == pointer, problem


async def test_a_tenant_has_a_bounded_number_under_way(api: Api) -> None:
    await submitted(api)
    for _ in range(MOST_OPEN):
        await call(api, "POST", BULK, 202, {"action": "cancel"})
    await call(api, "POST", BULK, 409, {"action": "cancel"})
    page = await call(api, "GET", BULK, 200, params={"limit": 15})
    assert len(page["bulk_operations"]) == 15
    rest = await call(api, "GET", BULK, 200, params={"cursor": page["next_cursor"]})
    assert len(rest["bulk_operations"]) == MOST_OPEN - 15


@pytest.fixture
async def secured(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, auth_enabled=True) as client:
        yield client


async def test_keys_hold_as_for_single_actions(
    secured: Api, database: Database, connection: Connection
) -> None:
    await fill(connection, 10, ago=1000)
    await fill(connection, 10, tenant="other", ago=1000)
    _, reader = await make_key(database, name="reader", roles=[Role.READ])
    await call(secured, "POST", BULK, 403, {"action": "retry"}, headers=bearer(reader))
    _, mailer = await make_key(database, name="mailer", task_types=["mail"])
    begun = await call(secured, "POST", BULK, 202, {"action": "retry"}, headers=bearer(mailer))
    await Stepper(database).finish(begun)
    path = f"{BULK}/{begun['operation_id']}"
    found = await call(secured, "GET", path, 200, headers=bearer(mailer))
    assert (found["total"], found["changed"], found["refused"]) == (10, 0, 10)
    assert found["refusals"][0]["reason"] == "it is outside of the limits of the key"

    _, owner = await make_key(database, name="owner")
    begun = await call(secured, "POST", BULK, 202, {"action": "delete"}, headers=bearer(owner))
    await Stepper(database).finish(begun)
    left = await connection.fetch("SELECT tenant_id, count(*) FROM gnomon.task GROUP BY tenant_id")
    assert [tuple(row) for row in left] == [("other", 10)]


async def test_ended_ones_are_removed_past_retention(
    api: Api, database: Database, connection: Connection
) -> None:
    await submitted(api)
    open_one = await call(api, "POST", BULK, 202, {"action": "cancel"})
    empty = await call(api, "POST", BULK, 202, {"action": "retry"})
    assert empty["status"] == "FINISHED"
    chores = PostgresChores(database)
    assert (await chores.remove(RowKind.BULK_OPERATIONS, 10, 1.0)).removed == 0
    assert (await chores.remove(RowKind.BULK_OPERATIONS, 10, -1.0)).removed == 1
    assert (await call(api, "GET", BULK, 200))["bulk_operations"][0]["operation_id"] == (
        open_one["operation_id"]
    )


async def test_a_request_with_a_key_begins_one_operation(api: Api) -> None:
    await submitted(api, BODY | {"delay_seconds": 60})
    again = {"Idempotency-Key": "once"}
    first = await call(api, "POST", BULK, 202, {"action": "cancel"}, headers=again)
    second = await call(api, "POST", BULK, 202, {"action": "cancel"}, headers=again)
    assert first == second
    assert len((await call(api, "GET", BULK, 200))["bulk_operations"]) == 1
