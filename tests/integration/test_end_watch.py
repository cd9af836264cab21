"""EndWatch on a real PostgreSQL: how often it asks, and for whom."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack

import pytest
from tests.integration.support import Connection, database_now, store, submission
from tests.integration.test_task_store import Heard

from gnomon.chores import Chores, Service, Troubles
from gnomon.clock import SystemClock
from gnomon.model.errors import Overloaded, WaitersFull
from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.tasks.end_watch import EndWatch


class Recorded(PostgresTasks):
    """The store, and what was asked of it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, Heard(), 60.0)
        self.asked: list[int] = []

    async def unended(self, keys: Sequence[TaskKey]) -> set[TaskKey]:
        self.asked.append(len(keys))
        return await super().unended(keys)


@pytest.fixture
def recorded(database: Database) -> Recorded:
    return Recorded(database)


@pytest.fixture
async def watch(recorded: Recorded) -> AsyncIterator[EndWatch]:
    clock = SystemClock()
    watch = EndWatch(recorded, clock, 4_000)
    chores = Chores(clock, Troubles(clock, lambda event: None))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(chores.run(Service("ends", watch.look, watch.rest)))
        yield watch
        running.cancel()


async def waiting_tasks(database: Database, connection: Connection, count: int) -> list[TaskKey]:
    now = await database_now(connection)
    return await store(database, *(submission(now, 3600.0) for _ in range(count)))


async def test_all_who_wait_share_one_question(
    watch: EndWatch, recorded: Recorded, database: Database, connection: Connection
) -> None:
    keys = await waiting_tasks(database, connection, 100)
    with ExitStack() as stack:
        events = [stack.enter_context(watch.waiting(key)) for key in keys * 2]
        await connection.execute(
            "UPDATE gnomon.task SET state = 4 WHERE id = ANY ($1)", [key.id for key in keys[:50]]
        )
        await asyncio.gather(*(event.wait() for event in events[:50] + events[100:150]))
        assert not any(event.is_set() for event in events[50:100] + events[150:])
        assert recorded.asked
        assert set(recorded.asked) == {100}, "each task is asked for once, all in one question"
        await connection.execute("DELETE FROM gnomon.task")
        await asyncio.gather(*(event.wait() for event in events))
    questions = len(recorded.asked)
    await asyncio.wait_for(watch.look(), 5)
    assert len(recorded.asked) == questions, "nothing is asked while nobody waits"


async def test_a_tenant_and_all_together_have_so_many_places(
    recorded: Recorded, database: Database, connection: Connection
) -> None:
    (key,) = await waiting_tasks(database, connection, 1)
    watch = EndWatch(recorded, SystemClock(), 16)  # 4 places, 2 of a tenant
    with ExitStack() as stack:
        for tenant in ("a", "a", "b"):
            stack.enter_context(watch.waiting(TaskKey(tenant, key.id)))
        with pytest.raises(Overloaded, match="2 requests"), watch.waiting(TaskKey("a", key.id)):
            pass
        with (
            watch.waiting(TaskKey("c", key.id)),
            pytest.raises(WaitersFull, match="4 requests"),
            watch.waiting(key),
        ):
            pass
        with watch.waiting(key):
            pass
    with watch.waiting(TaskKey("a", key.id)), watch.waiting(TaskKey("a", key.id)):
        pass


async def test_a_task_of_another_tenant_is_no_task(
    recorded: Recorded, database: Database, connection: Connection
) -> None:
    (key,) = await waiting_tasks(database, connection, 1)
    assert await recorded.unended([key, TaskKey("other", key.id)]) == {key}


async def test_once_closed_nobody_waits(
    watch: EndWatch, database: Database, connection: Connection
) -> None:
    (key,) = await waiting_tasks(database, connection, 1)
    with watch.waiting(key) as before:
        watch.close()
        with watch.waiting(key) as after:
            assert before.is_set()
            assert after.is_set()
