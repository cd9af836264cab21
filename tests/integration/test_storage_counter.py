"""The chore that counts the bytes of tenants, one node at a time."""

import time

from tests.integration.api_calls import LATER, TASKS, Api, call, submitted
from tests.integration.identity import make_tenant
from tests.integration.quota_calls import give
from tests.integration.support import Connection

from gnomon.chores import Troubles
from gnomon.clock import Clock, SystemClock, new_incarnation
from gnomon.model.errors import StoreUnavailable
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.node.maintenance.storage_counter import StorageCounter
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import nobody
from gnomon.store.ports.tenancy.storage import StorageLevel
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.usage.storage import PostgresStorage
from gnomon.store.tenant_cache import TenantCache


async def counter(
    database: Database, clock: Clock | None = None, store: PostgresStorage | None = None
) -> StorageCounter:
    clock = clock or SystemClock()
    directory = TenantCache(PostgresTenantReader(database), clock, {})
    await directory.load()
    return StorageCounter(
        store or PostgresStorage(database, clock),
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


class SkippingClock(SystemClock):
    """Lets time pass at once."""

    def __init__(self) -> None:
        self.passed = 0.0
        super().__init__(lambda: time.monotonic() + self.passed)


class Slow(PostgresStorage):
    """Cannot count one tenant, and takes longer than a pass to find out."""

    def __init__(self, database: Database, clock: SkippingClock, tenant_id: str) -> None:
        super().__init__(database, clock)
        self._skipping = clock
        self._tenant_id = tenant_id
        self.tried: list[str] = []

    async def count(self, level: StorageLevel) -> int | None:
        self.tried.append(level.tenant_id)
        if level.tenant_id == self._tenant_id:
            self._skipping.passed += 31.0
            raise StoreUnavailable("a statement took too long", "57014")
        return await super().count(level)


async def test_a_tenant_that_cannot_be_counted_keeps_no_other_back(
    api: Api, database: Database, connection: Connection
) -> None:
    await give(connection, api, stored_bytes=30_000)
    await submitted(api, LATER | {"payload": "x" * 9_000})
    await make_tenant(database, "other")
    await connection.execute(
        """UPDATE gnomon.tenant SET quotas = '{"stored_bytes": 30000}' WHERE id = 'other'"""
    )
    clock = SkippingClock()
    store = Slow(database, clock, DEFAULT_TENANT)
    counting = await counter(database, clock, store)
    assert [await counting.run_once() for _ in range(2)] == [0, 1]
    assert store.tried[:2] == [DEFAULT_TENANT, "other"]
    clock.passed += 600.0
    await counting.run_once()
    assert store.tried[-1] == DEFAULT_TENANT, "it is tried again"
