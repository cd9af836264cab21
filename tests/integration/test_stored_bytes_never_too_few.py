"""The bytes of a tenant are never known as fewer than they are, whatever goes and when.

PostgreSQL compresses what is stored, and a count finds what it really has: whoever is given back
more than that could store without end.
"""

from typing import Any

import pytest
from tests.integration.api_calls import LATER, TASKS, Api, call, submitted
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    settlement,
    store,
    submission,
)
from tests.integration.test_stored_bytes import JOB, JOBS, count, level, text

from gnomon.clock import SystemClock
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.task import DEFAULT_TENANT, KeepPayload, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.usage.storage import PostgresStorage

RETRY = Verdict(VerdictKind.RETRY)
SQUASHY = "x" * 100_000  # of which PostgreSQL keeps 1 %
SHORT_SQUASHY = "x" * 2_000  # with its task
KNOWN = """
    SELECT coalesce((SELECT sum(bytes) FROM gnomon.tenant_storage), 0)
        + (SELECT coalesce(sum(held_bytes), 0) FROM gnomon.usage WHERE session <> 0)
"""


async def known(connection: Connection) -> int:
    """As it is kept, below zero too."""
    return int(await connection.fetchval(KNOWN))


async def running(
    database: Database, connection: Connection, payload: str, number: int = 3
) -> list[Delivery]:
    node, now = await joined(database), await database_now(connection)
    body = f'"{payload}"'.encode()
    keys: list[TaskKey] = await store(
        database,
        *(submission(now, keep_payload=KeepPayload.NEVER, payload=body) for _ in range(number)),
    )
    return list((await PostgresDispatch(database, 5.0).claim(node, keys)).deliveries)


async def end(database: Database, deliveries: list[Delivery]) -> None:
    await PostgresDispatch(database, 5.0).settle([settlement(d) for d in deliveries])


async def complete(connection: Connection, deliveries: list[Delivery]) -> None:
    """As a handler does in a transaction of its own."""
    for each in deliveries:
        await connection.execute(
            "SELECT gnomon.complete_run($1, $2, $3, $4)",
            each.key.tenant_id,
            each.key.id,
            each.fence,
            each.incarnation,
        )


@pytest.mark.parametrize("payload", [SQUASHY, SHORT_SQUASHY])
@pytest.mark.parametrize("by_handler", [False, True])
async def test_a_payload_gives_back_what_it_took(
    database: Database, connection: Connection, payload: str, by_handler: bool
) -> None:
    deliveries = await running(database, connection, payload)
    await count(database)
    if by_handler:
        await complete(connection, deliveries)
    else:
        await end(database, deliveries)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task_payload") == 0
    left = await known(connection)
    assert left >= (await count(database) or 0) > 0


@pytest.mark.parametrize("cancelled", [False, True])
async def test_tracebacks_are_counted(
    database: Database, connection: Connection, cancelled: bool
) -> None:
    deliveries = await running(database, connection, "x")
    await connection.execute("UPDATE gnomon.task SET cancel_requested = $1", cancelled)
    await count(database)
    before = await known(connection)
    await PostgresDispatch(database, 5.0).settle(
        [settlement(d, RETRY, OutcomeKind.FAILED, traceback=text(16_000)) for d in deliveries]
    )
    left = await known(connection)
    assert left >= (await count(database) or 0) > before + 3 * 16_000


@pytest.mark.parametrize("by_handler", [False, True])
async def test_a_payload_that_was_stored_as_it_is_gives_back_all(
    database: Database, connection: Connection, by_handler: bool
) -> None:
    for size in (1_000, 50_000):
        before = await known(connection)
        deliveries = await running(database, connection, text(size))
        if by_handler:
            await complete(connection, deliveries)
        else:
            await end(database, deliveries)
        rows = 3 * 700
        assert await known(connection) - before < rows


async def test_what_is_changed_to_less_gives_nothing_back(
    api: Api, database: Database, connection: Connection
) -> None:
    task = await submitted(api, LATER | {"payload": SQUASHY})
    job: dict[str, Any] = JOB | {"interval_seconds": 3600, "payload_template": SQUASHY}
    await call(api, "POST", JOBS, 201, job | {"name": "job"})
    await count(database)
    await call(api, "PATCH", f"{TASKS}/{task['task_id']}", 200, {"payload": 1})
    await call(api, "PATCH", f"{JOBS}/job", 200, {"payload_template": None})
    left = await known(connection)
    assert left >= (await count(database) or 0) > 0


async def test_what_is_changed_to_as_much_that_takes_more_is_counted(
    api: Api, database: Database, connection: Connection
) -> None:
    task = await submitted(api, LATER | {"payload": SQUASHY})
    job: dict[str, Any] = JOB | {"interval_seconds": 3600, "payload_template": SQUASHY}
    await call(api, "POST", JOBS, 201, job | {"name": "job"})
    await count(database)
    change = {"payload": text(len(SQUASHY)), "tags": [text(90) for _ in range(20)]}
    await call(api, "PATCH", f"{TASKS}/{task['task_id']}", 200, change)
    await call(api, "PATCH", f"{JOBS}/job", 200, {"payload_template": text(len(SQUASHY))})
    left = await known(connection)
    assert left >= (await count(database) or 0) > 2 * len(SQUASHY)


@pytest.mark.parametrize("gathered", [False, True])
async def test_what_ends_during_a_count_is_taken_off_once(
    database: Database, connection: Connection, gathered: bool
) -> None:
    """It goes after the count has begun, and before it comes to where it was."""
    deliveries = await running(database, connection, text(50_000))

    class Late(PostgresStorage):
        async def _counted(self, tenant_id: str) -> int:
            await end(database, deliveries)
            if gathered:
                await connection.execute("UPDATE gnomon.usage SET day = day - 1")
                await PostgresChores(database).remove(RowKind.SESSIONS, 100, 30.0)
            return await super()._counted(tenant_id)

    storage = Late(database, SystemClock())
    ((before,), _) = await storage.levels([DEFAULT_TENANT])
    found = await storage.count(before)
    assert await known(connection) >= (found or 0) > 0
    await count(database)
    assert await level(connection) == found
