"""More slots than connections to a host, or than threads: whoever has none waits unclaimed, and
neither loses time nor keeps others from their slots."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.integration import handlers
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, end_of, store, submission
from tests.waiting import eventually

from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, Submission, TaskKey
from gnomon.store.postgres.database import Database

ROOM = 2
SLOTS = 8
TIMEOUT = 2.0
ONCE = {"delivery": DeliveryMode.AT_MOST_ONCE, "retry_policy": RetryPolicy(max_retries=0)}


class Host:
    """A receiver that keeps whoever calls until it is opened, and how many it kept at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.seconds = 0.0
        self.inside = 0
        self.most = 0
        self.calls = 0
        self.url = ""

    async def receive(self, _: web.Request) -> web.Response:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
            await asyncio.sleep(self.seconds)
        finally:
            self.inside -= 1
        return web.Response()

    def tasks(self, now: datetime, count: int, **values: Any) -> list[Submission]:
        return [submission(now, target=HttpTarget(self.url), **values) for _ in range(count)]


@asynccontextmanager
async def host() -> AsyncIterator[Host]:
    made = Host()
    app = web.Application()
    app.router.add_post("/", made.receive)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/"))
        yield made
        made.open.set()


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


async def ends(connection: Connection, keys: Sequence[TaskKey]) -> list[asyncpg.Record]:
    return [await end_of(connection, key) for key in keys]


async def test_waiting_for_a_connection_is_not_running(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    """Twelve calls of 0.45 s, two at a time, take longer than any of them may."""
    async with (
        host() as slow,
        running_node(database_dsn, node_slots=SLOTS, targets_connections_per_host=ROOM),
    ):
        slow.seconds = 0.45
        slow.open.set()
        tasks = slow.tasks(now, 12, timeout_seconds=TIMEOUT, **ONCE)
        rows = await ends(connection, await store(database, *tasks))
    assert [row["state"] for row in rows] == [State.COMPLETED] * 12
    assert slow.most == ROOM
    assert slow.calls == 12
    # Nothing was claimed that had to be given back.
    assert {(row["attempt"], row["fence"]) for row in rows} == {(1, 1)}


async def test_who_waits_for_a_host_leaves_the_slots_to_others(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    async with (
        host() as slow,
        host() as quick,
        running_node(database_dsn, node_slots=SLOTS, targets_connections_per_host=ROOM),
    ):
        quick.open.set()
        waiting = await store(database, *slow.tasks(now, 3 * SLOTS))

        async def is_full() -> bool:
            return slow.inside == ROOM

        await eventually(is_full)
        # Of the same tenant and type, and due later.
        rows = await ends(connection, await store(database, *quick.tasks(now, 3 * SLOTS)))
        assert {row["state"] for row in rows} == {State.COMPLETED}
        assert slow.calls == ROOM
        slow.open.set()
        rows += await ends(connection, waiting)
    assert {(row["state"], row["fence"]) for row in rows} == {(State.COMPLETED, 1)}
    assert slow.most == ROOM


async def test_waiting_for_a_thread_is_not_running(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    calls = [
        call_of(now, "block_a_thread", timeout_seconds=TIMEOUT, **ONCE) for _ in range(3 * ROOM)
    ]
    others = [call_of(now, "echo", task_type="other")[1] for _ in range(SLOTS)]

    async def take_a_while(who: str) -> None:
        async def has_begun() -> bool:
            return bool(handlers.calls[who])

        await eventually(has_begun)
        await asyncio.sleep(TIMEOUT / 2)
        handlers.gates[who].set()

    async with running_node(database_dsn, node_slots=SLOTS, targets_threads=ROOM):
        keys = await store(database, *(task for _, task in calls))
        blocking = asyncio.gather(*(take_a_while(who) for who, _ in calls))
        # The threads are taken, and the slots are not.
        rows = await ends(connection, await store(database, *others))
        assert not blocking.done()
        await blocking
        rows += await ends(connection, keys)
    assert {(row["state"], row["attempt"], row["fence"]) for row in rows} == {
        (State.COMPLETED, 1, 1)
    }
