"""The chore that counts the bytes of tenants, one node at a time."""

from tests.integration.api_calls import LATER, TASKS, Api, call, submitted
from tests.integration.quota_calls import give
from tests.integration.support import Connection

from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_incarnation
from gnomon.model.task import DEFAULT_TENANT
from gnomon.observe.events import nobody
from gnomon.scheduler.storage_counter import StorageCounter
from gnomon.store.directory import Directory
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.directory import PostgresDirectory
from gnomon.store.postgres.nodes import PostgresChores
from gnomon.store.postgres.storage import PostgresStorage
from gnomon.worker.lease import Lease


async def counter(database: Database) -> StorageCounter:
    clock = SystemClock()
    directory = Directory(PostgresDirectory(database, with_schemas=False), clock, {})
    await directory.load()
    return StorageCounter(
        PostgresStorage(database, clock),
        PostgresChores(database),
        Lease(new_incarnation(), 10.0),
        directory,
        clock,
        Troubles(clock, nobody),
    )


async def test_room_that_was_made_is_found_by_one_node(
    api: Api, database: Database, connection: Connection
) -> None:
    body = LATER | {"payload": "x" * 9_000}
    assert await (await counter(database)).run_once() == 0  # nobody has such a quota
    await give(connection, api, stored_bytes=30_000)
    first, second = await counter(database), await counter(database)
    tasks = [await submitted(api, body) for _ in range(3)]
    await call(api, "POST", TASKS, 429, body)
    for task in tasks:
        await call(api, "DELETE", f"{TASKS}/{task['task_id']}", 204)
    await call(api, "POST", TASKS, 429, body)
    assert await first.run_once() == 1
    assert await second.run_once() == 0
    assert await first.run_once() == 0  # it was counted a moment ago
    await submitted(api, body)
    # Another tenant without the quota is not counted.
    counted = await connection.fetch("SELECT tenant_id FROM gnomon.tenant_storage")
    assert [row["tenant_id"] for row in counted] == [DEFAULT_TENANT]
