"""A migration with steps of every kind, beside a load of submissions, claims and settlements."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

import pytest
from tests.conftest import connected
from tests.integration.migrating import LABELS, known
from tests.integration.support import Connection, joined, settlement, store, submission
from tests.integration.test_migration_steps import FILL
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.postgres import migrate
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.migrate.steps import LOCK_SECONDS

ROWS = 200_000
BATCH = 20
SMALL_SECONDS = 3.0  # on a busy machine
_PAUSE_SECONDS = 0.02  # between two rounds: it is the waits that matter, not the rate


class Load:
    """Submits, claims and settles all the time, and remembers the longest wait of each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stop = asyncio.Event()
        self.rounds = 0
        self.longest: dict[str, float] = {}

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.longest[what] = max(self.longest.get(what, 0.0), time.monotonic() - began)

    async def work(self) -> None:
        dispatch = PostgresDispatch(self._database, 5.0)
        node = await joined(self._database)
        clock = SystemClock()
        while not self._stop.is_set():
            with self._timed("submit"):
                new = [submission(clock.now()) for _ in range(BATCH)]
                keys = await store(self._database, *new)
            with self._timed("claim"):
                claimed = await self._claimed(dispatch, node, keys)
            with self._timed("settle"):
                settled = await dispatch.settle([settlement(each) for each in claimed])
            assert len(keys) == len(claimed) == len(settled) == BATCH
            self.rounds += 1
            await clock.sleep(_PAUSE_SECONDS)

    async def _claimed(
        self, dispatch: PostgresDispatch, node: UUID, keys: list[TaskKey]
    ) -> list[Delivery]:
        """As a node does it: what a step of the migration writes to meanwhile is claimed later."""
        claimed: list[Delivery] = []
        while left := sorted(set(keys) - {each.key for each in claimed}):
            claimed += (await dispatch.claim(node, left)).deliveries
        return claimed

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self.work())
            try:
                yield
            finally:
                self._stop.set()

    async def goes_on(self) -> None:
        before = self.rounds

        async def look() -> bool:
            return self.rounds >= before + 4

        await eventually(look)


@pytest.mark.timeout(240)
async def test_nobody_waits_for_a_migration_longer_than_for_its_lock(
    database: Database, connection: Connection, database_dsn: str
) -> None:
    await connection.execute(FILL, ROWS)
    reader = await connected(database_dsn)
    load = Load(database)
    waited = asyncio.Event()
    batches: list[int] = []

    def seen(progress: migrate.StepProgress) -> None:
        if progress.waits:
            waited.set()
        if progress.rows:
            batches.append(progress.rows)

    async with load.running():
        await load.goes_on()
        async with reader.transaction():
            # A long report. Whoever comes after the migration queues behind it, until it gives up.
            await reader.execute("SELECT FROM gnomon.task LIMIT 1")
            migrating = asyncio.create_task(migrate.up(connection, known=known(), on_progress=seen))
            async with asyncio.timeout(60):
                await waited.wait()
            await load.goes_on()
            assert not migrating.done()
        (applied,) = await migrating
        await load.goes_on()
    await reader.close()

    assert applied.version == LABELS
    assert max(load.longest.values()) < LOCK_SECONDS + SMALL_SECONDS, load.longest
    assert len(batches) >= ROWS / 2000
    left = "SELECT count(*) FROM gnomon.task WHERE state = 2 AND label IS DISTINCT FROM 'x'"
    assert await connection.fetchval(left) == 0
    assert await connection.fetchval("SELECT count(*) FROM gnomon.execution") == 0
