"""What others do to the server meanwhile. Each is a context that begins with the load."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

import asyncpg
from tests.conftest import connected
from tests.system.harness import Truth

from gnomon.clock import SystemClock, new_id

_CUT = """
SELECT count(*) FROM (
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'gnomon' AND datname = current_database()
) AS cut
"""
_LATE = """
INSERT INTO gnomon.task (tenant_id, id, task_type, target, execute_at, due_at)
VALUES ('default', $1, 'work', '{"type": "python", "function": "work"}', now(), now())
"""
_ALL_CUT = 200
_REFUSED = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Trouble:
    """When what was done to the server was over, in the server's time; None: nothing, or never."""

    def __init__(self, dsn: str, truth: Truth, seconds: float) -> None:
        self.dsn = dsn
        self.truth = truth
        self.seconds = seconds  # of load
        self.ended_at: float | None = None
        self.note = ""

    async def is_over(self) -> None:
        self.ended_at = float(
            await self.truth.value("SELECT extract(epoch FROM gnomon.now())::float8")
        )


@asynccontextmanager
async def calm(trouble: Trouble) -> AsyncIterator[None]:
    """Nothing."""
    del trouble
    yield


@asynccontextmanager
async def reader(trouble: Trouble) -> AsyncIterator[None]:
    """A snapshot that stays open."""
    connection = await connected(trouble.dsn)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetch("SELECT count(*) FROM gnomon.task")
            yield
    finally:
        await connection.close()


@asynccontextmanager
async def writer(trouble: Trouble) -> AsyncIterator[None]:
    """A transaction that has written a task and does nothing more, until the load has ended."""
    connection = await connected(trouble.dsn)
    try:
        async with connection.transaction():
            await connection.execute(_LATE, new_id(SystemClock().now()))
            yield
    finally:
        await connection.close()


@asynccontextmanager
async def backends(trouble: Trouble) -> AsyncIterator[None]:
    """200 connections of Gnomon are cut, all that it has at a time."""

    async def cut() -> None:
        await asyncio.sleep(trouble.seconds / 3)
        gone = 0
        most = _ALL_CUT if trouble.seconds >= 30 else _ALL_CUT // 10
        while gone < most:
            gone += await trouble.truth.value(_CUT)
            await asyncio.sleep(0.2)
        trouble.note = f"{gone} backends terminated"
        await trouble.is_over()

    async with asyncio.TaskGroup() as group:
        cutting = group.create_task(cut())
        yield
        await cutting


@asynccontextmanager
async def slots(trouble: Trouble) -> AsyncIterator[None]:
    """Others take every connection that the server has, those of Gnomon among them."""

    async def take() -> None:
        await asyncio.sleep(trouble.seconds / 3)
        loop = asyncio.get_running_loop()
        ends = loop.time() + min(5.0, trouble.seconds / 6)
        taken: list[asyncpg.Connection[asyncpg.Record]] = []
        try:
            while loop.time() < ends:
                await trouble.truth.value(_CUT)
                with contextlib.suppress(*_REFUSED):
                    while loop.time() < ends:
                        taken.append(await asyncpg.connect(trouble.dsn, timeout=2))
                await asyncio.sleep(0.05)
            trouble.note = f"{len(taken)} connections taken by others"
        finally:
            for connection in taken:
                connection.terminate()
        await trouble.is_over()

    async with asyncio.TaskGroup() as group:
        taking = group.create_task(take())
        yield
        await taking


class Kind(NamedTuple):
    """A disturbance, and what is promised under it."""

    context: Callable[[Trouble], AbstractAsyncContextManager[None]]
    what: str
    steady: bool = True  # as fast as without it, all the time; else soon after it
    fresh: bool = False  # a database that has just been made


KINDS = {
    "calm": Kind(calm, "nothing else happens"),
    "reader": Kind(reader, "a REPEATABLE READ reader stays open"),
    "writer": Kind(writer, "a transaction that has written stays open"),
    "fresh": Kind(calm, "a new database, never analyzed", fresh=True),
    "backends": Kind(backends, "200 backends are terminated", steady=False),
    "slots": Kind(slots, "others take all connections of the server", steady=False),
}
