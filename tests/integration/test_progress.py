"""How far a running task is: reported by its handler, stored by its node, read by anybody."""

from typing import Any

import msgspec
import pytest
from tests.integration import handlers
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import call_of, running_node
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    settlement,
    store,
    submission,
)
from tests.waiting import eventually

from gnomon.clock import new_incarnation
from gnomon.model.fleet.retention import RowKind
from gnomon.pipe.envelope import Delivery
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.progress import EndedProgress, PostgresProgress, ProgressNote
from gnomon.store.postgres.dispatch.roster import PostgresChores

ROWS = "SELECT count(*) FROM gnomon.progress"


@pytest.mark.parametrize("handler", ["report_progress", "report_progress_in_a_thread"])
async def test_what_a_handler_reports_can_be_read_while_it_runs(
    api: Api, database_dsn: str, database: Database, connection: Connection, handler: str
) -> None:
    who, new = call_of(await database_now(connection), handler)
    await store(database, new)
    path = f"{TASKS}/{new.id}"

    async def reported() -> Any:
        return (await call(api, "GET", path, 200))["progress"]

    async with running_node(database_dsn):
        progress = await eventually(reported)
        assert (progress["fraction"], progress["message"]) == (0.4, "four of ten")
        assert progress["at"].endswith("Z")
        handlers.gates[who].set()

        async def ended() -> bool:
            return str((await call(api, "GET", path, 200))["status"]) == "COMPLETED"

        await eventually(ended)
        assert await reported() is None

        async def forgotten() -> bool:
            return bool(await connection.fetchval(ROWS) == 0)

        await eventually(forgotten)


async def claimed(database: Database, connection: Connection) -> Delivery:
    node = await joined(database)
    keys = await store(database, submission(await database_now(connection)))
    (delivery,) = (await PostgresDispatch(database, 5.0).claim(node, keys)).deliveries
    return delivery


def note(delivery: Delivery, fence: int | None = None, fraction: float = 0.5) -> ProgressNote:
    node = delivery.incarnation
    return ProgressNote(
        delivery.key, delivery.fence if fence is None else fence, node, fraction, "half"
    )


async def test_a_stale_execution_reports_to_nobody(
    database: Database, connection: Connection
) -> None:
    delivery = await claimed(database, connection)
    progress = PostgresProgress(database)
    await progress.note([msgspec.structs.replace(note(delivery), node=new_incarnation())], [])
    await progress.note([note(delivery, delivery.fence - 1)], [])
    await progress.note([note(delivery, delivery.fence + 1)], [])
    assert await connection.fetchval(ROWS) == 0
    await progress.note([note(delivery)], [])
    await progress.note([note(delivery, fraction=0.75)], [])
    assert await connection.fetchval("SELECT fraction FROM gnomon.progress") == 0.75


async def test_what_was_reported_under_another_fence_is_not_shown(
    api: Api, database: Database, connection: Connection
) -> None:
    delivery = await claimed(database, connection)
    await PostgresProgress(database).note([note(delivery)], [])
    path = f"{TASKS}/{delivery.key.id}"
    assert (await call(api, "GET", path, 200))["progress"]["fraction"] == 0.5
    await connection.execute("UPDATE gnomon.task SET fence = fence + 1")
    assert (await call(api, "GET", path, 200))["progress"] is None


async def test_rows_go_with_their_node_with_their_task_or_by_the_pruner(
    api: Api, database: Database, connection: Connection
) -> None:
    progress, chores = PostgresProgress(database), PostgresChores(database)
    running, ended, forgotten = [await claimed(database, connection) for _ in range(3)]
    for delivery in (running, ended, forgotten):
        await progress.note([note(delivery)], [])
    stale = EndedProgress(running.key, running.fence - 1)
    gone = EndedProgress(forgotten.key, forgotten.fence)
    await progress.note([], [stale, gone])
    assert await connection.fetchval(ROWS) == 2
    await PostgresDispatch(database, 5.0).settle([settlement(ended)])
    assert (await chores.remove(RowKind.PROGRESS, 10, 7.0)).removed == 1
    assert await connection.fetchval("SELECT task_id FROM gnomon.progress") == running.key.id
    await connection.execute("UPDATE gnomon.task SET state = 3, node = NULL")
    await call(api, "DELETE", f"{TASKS}/{running.key.id}", 204)
    assert await connection.fetchval(ROWS) == 0
