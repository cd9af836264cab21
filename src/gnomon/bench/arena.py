"""The place of a measure: a fresh, migrated database, and a folder for those who work on it."""

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import asyncpg

from gnomon.bench.processes import INSTALLED, Process, Program, gnomon
from gnomon.bench.results import BenchError
from gnomon.clock import new_id
from gnomon.model.targets.target import PythonTarget, Target
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks

PAYLOAD = b'{"n": 1}'
Flow = tuple[str, Lane]  # a tenant, and a priority of its tasks
AT_ONCE = 5_000  # tasks in one inserting statement
_LOOK_SECONDS = 0.01
_CLOCK_LOOKS = 20
_REST_SECONDS = 600.0


class Nobody:
    """Hints to nobody: what is stored here is stored before there is a node."""

    def due(self, entries: object) -> None:
        pass

    def cancel(self, key: object) -> None:
        pass

    def steps(self) -> None:
        pass


class Arena:
    """A migrated database, and a folder for those who work on it."""

    def __init__(
        self,
        dsn: str,
        folder: Path,
        connection: "asyncpg.Connection[asyncpg.Record]",
        program: Program = INSTALLED,
        *,
        checkpoints: bool = True,  # not on a server that others work on
    ) -> None:
        self.dsn = dsn
        self.folder = folder
        self.connection = connection
        self.program = program
        self._checkpoints = checkpoints

    @asynccontextmanager
    async def api(self, **settings: str) -> AsyncIterator[Process]:
        async with gnomon("api", self.dsn, self.folder, self.program, **settings) as process:
            yield process

    @asynccontextmanager
    async def node(self, **settings: str) -> AsyncIterator[Process]:
        async with gnomon("scheduler", self.dsn, self.folder, self.program, **settings) as process:
            yield process

    @asynccontextmanager
    async def worker(
        self, processes: int, url: str | None = None, **settings: str
    ) -> AsyncIterator[Process]:
        """A worker with the database, or of the gateway at `url`, or behind the broker there."""
        option = "--url" if url is None or url.startswith("http") else "--pipe"
        where = () if url is None else (option, url)
        app = self.program.environ["GNOMON_NODE_APP"]
        arguments = (app, "--processes", str(processes), "--no-line", *where)
        command = gnomon("worker", self.dsn, self.folder, self.program, arguments, **settings)
        async with command as process:
            yield process

    async def add_tenants(self, count: int) -> list[str]:
        """Make tenants without quotas. Gives their ids."""
        return [
            row["id"]
            for row in await self.connection.fetch(
                """
                INSERT INTO gnomon.tenant (id, plan)
                SELECT 'bench-' || n, 'unlimited' FROM generate_series(1, $1::integer) AS n
                RETURNING id
                """,
                count,
            )
        ]

    async def preload(
        self,
        target: Target,
        count: int,
        *,
        rest: bool = True,
        flows: Sequence[Flow] = ((DEFAULT_TENANT, Lane.MEDIUM),),
    ) -> None:
        """Store tasks that are due, as the API would, and let the server come to rest. They belong
        to the tenants and priorities of `flows`, in turn."""
        turn = itertools.cycle(flows)
        async with store_on(self.dsn) as store:
            for first in range(0, count, AT_ONCE):
                now = datetime.now(UTC)
                size = min(AT_ONCE, count - first)
                batch = [_task(target, now, flow) for flow in itertools.islice(turn, size)]
                await store.insert([NewTask(task) for task in batch])
        if rest:
            await self.rest()

    async def rest(self) -> None:
        """Do now what autovacuum and the checkpointer would do some time during the measure."""
        await self.connection.execute("VACUUM ANALYZE", timeout=_REST_SECONDS)
        if self._checkpoints:
            await self.connection.execute("CHECKPOINT", timeout=_REST_SECONDS)

    async def settled(self, timeout: float, after: str = "") -> float:
        """Wait until no task is live (of tenants whose ids come after that one); gives the moment.
        Watches one task at a time, by its key: counting would take the processor from what is
        measured."""
        deadline = time.monotonic() + timeout
        while True:
            newest = await self.connection.fetchrow(
                """
                SELECT tenant_id, id FROM gnomon.task WHERE tenant_id > $1
                ORDER BY tenant_id DESC, id DESC LIMIT 1
                """,
                after,
            )
            if newest is None:
                return time.time()
            while await self.connection.fetchval(
                "SELECT true FROM gnomon.task WHERE tenant_id = $1 AND id = $2", *newest
            ):
                if time.monotonic() > deadline:
                    raise BenchError(f"tasks were still live after {timeout:g} s")
                await asyncio.sleep(_LOOK_SECONDS)

    async def live(self) -> int:
        return int(await self.connection.fetchval("SELECT count(*) FROM gnomon.task"))

    async def completed(self) -> int:
        return int(
            await self.connection.fetchval(
                "SELECT count(*) FROM gnomon.task_archive WHERE state = $1", State.COMPLETED
            )
        )

    async def clock_ahead(self) -> float:
        """Seconds that the server's clock is ahead of ours, at the most; 0 where it may well be the
        same clock."""
        least, most = -math.inf, math.inf
        for _ in range(_CLOCK_LOOKS):
            before = time.time()
            moment = await self.connection.fetchval("SELECT clock_timestamp()")
            least = max(least, moment.timestamp() - time.time())
            most = min(most, moment.timestamp() - before)
        return 0.0 if least <= 0 <= most else most

    async def steady_rate(self) -> float:
        """Tasks a second between the first and the last tenth of what was finished."""
        row = await self.connection.fetchrow(
            """
            SELECT count(*) AS count,
                percentile_disc(0.1) WITHIN GROUP (ORDER BY finished_at) AS early,
                percentile_disc(0.9) WITHIN GROUP (ORDER BY finished_at) AS late
            FROM gnomon.task_archive
            """
        )
        assert row is not None
        seconds = (row["late"] - row["early"]).total_seconds()
        return 0.8 * int(row["count"]) / seconds if seconds > 0 else float("nan")


class Arenas(Protocol):
    """Where arenas come from."""

    def arena(self) -> AbstractAsyncContextManager[Arena]:
        """A fresh one, that is removed afterwards."""


@asynccontextmanager
async def store_on(dsn: str) -> AsyncIterator[PostgresTasks]:
    """The API's store, in this process."""
    database = Database(dsn, 4)
    await database.open()
    try:
        yield PostgresTasks(database, Nobody(), 3600.0)
    finally:
        await database.close()


def _task(target: Target, now: datetime, flow: Flow) -> Submission:
    tenant_id, lane = flow
    return Submission(
        tenant_id=tenant_id,
        priority=lane,
        id=new_id(now),
        task_type=target.function if isinstance(target, PythonTarget) else "bench",
        target=target,
        execute_at=now,
        due_at=now,
        payload=PAYLOAD,
    )
