"""Transactional handlers that wait until a connection is free: that is none of their time, and who
was not called has made no try."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import Connection
from tests.unit.node.worker_world import World, working

from gnomon import TaskContext
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.pipe.envelope import Report
from gnomon.sdk.app import CallNext

HOLDER, WAITER = 1, 2


class Crowd:
    """A worker of two slots whose transactional handlers share one connection. What they write is
    their own business; none completes a task, since there is no store."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.runs: dict[int, TaskContext] = {}  # of those whose slots have come to call them
        self.called: dict[int, TaskContext] = {}  # their handlers
        self.gate = asyncio.Event()
        world.app.middleware(self.note)
        world.app.task(delivery="exactly_once", transactional=True)(self.hold)

    async def note(self, run: TaskContext, call_next: CallNext) -> object:
        self.runs[run.task_id.int] = run
        return await call_next()

    async def hold(self, payload: object, run: TaskContext) -> None:
        self.called[run.task_id.int] = run
        await self.gate.wait()
        raise ValueError("no store completes it")

    async def both_come(self, timeout: float = 60.0, start_by: float = 3600.0) -> None:
        """One holds the connection, and the other one waits for it."""
        await self.holder_comes()
        await self.waiter_comes(timeout, start_by)

    async def holder_comes(self) -> None:
        self.world.send("hold", HOLDER, timeout=60.0)
        await self._until(self.called, HOLDER)

    async def waiter_comes(self, timeout: float = 60.0, start_by: float = 3600.0) -> None:
        latest = self.world.clock.seconds() + start_by
        self.world.send("hold", WAITER, timeout=timeout, start_by=latest)
        await self._until(self.runs, WAITER)

    async def _until(self, those: dict[int, TaskContext], number: int) -> None:
        async with asyncio.timeout(30):
            while number not in those:
                await asyncio.sleep(0.005)

    def report(self, number: int) -> Report:
        (found,) = (r for r in self.world.reports if r.delivery.key.id.int == number)
        return found


@pytest.fixture
async def crowd(
    superuser: Connection,
    connection: Connection,
    database_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Crowd]:
    monkeypatch.setenv("GNOMON_DATABASE_HANDLER_CONNECTIONS", "1")
    async with login_role(superuser) as role:
        await grant(connection, role)
        world = World()
        world.app.database = as_role(database_dsn, role)
        made = Crowd(world)
        async with world.app.running(), _ended(made), working(world):
            yield made


@asynccontextmanager
async def _ended(crowd: Crowd) -> AsyncIterator[None]:
    try:
        yield
    finally:
        crowd.gate.set()


async def test_one_whose_time_is_up_while_it_waits_has_made_no_try(crowd: Crowd) -> None:
    await crowd.both_come(timeout=0.1)
    await crowd.world.reported(1)
    assert crowd.report(WAITER).outcome is None
    assert crowd.called.keys() == {HOLDER}


async def test_one_that_waits_for_long_is_left_to_others(crowd: Crowd) -> None:
    await crowd.both_come(start_by=1.0)
    await crowd.world.reported(1)
    assert crowd.report(WAITER).outcome is None
    assert crowd.called.keys() == {HOLDER}


async def test_one_that_is_cancelled_while_it_waits_was_not_called(crowd: Crowd) -> None:
    await crowd.both_come()
    assert crowd.world.worker.interrupt(crowd.world.delivery("hold", WAITER, 60.0).key, "cancelled")
    await crowd.world.reported(1)
    assert crowd.report(WAITER).outcome is None


async def test_the_time_of_a_handler_counts_from_its_transaction(crowd: Crowd) -> None:
    await crowd.both_come()
    run = crowd.runs[WAITER]
    assert run.deadline is not None
    waits_at, before = crowd.world.clock.seconds(), run.deadline.timestamp()
    await asyncio.sleep(0.2)
    freed_at = crowd.world.clock.seconds()
    crowd.gate.set()
    await crowd.world.reported(2)
    assert crowd.called[WAITER] is run
    # To the microsecond, as a deadline is told.
    assert run.deadline.timestamp() >= before + (freed_at - waits_at) - 1e-6
    assert run.put_off >= freed_at - waits_at


class SlowPool:
    """Connections of a pool that are there when the gate is open."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        self.asked.set()
        await self.gate.wait()
        async with self._pool.acquire() as connection:
            yield connection

    def terminate(self) -> None:
        self._pool.terminate()


async def test_the_wait_for_a_turn_is_excused_before_the_transaction_begins(crowd: Crowd) -> None:
    """Or its time would be up while it connects, and it would be told so as one that was called."""
    await crowd.holder_comes()
    transactions = crowd.world.app._transactions
    assert transactions is not None, "the holder has opened one"
    transactions._pool = slow = SlowPool(transactions._pool)
    await crowd.waiter_comes()
    waits_at = crowd.world.clock.seconds()
    await asyncio.sleep(0.2)
    freed_at = crowd.world.clock.seconds()
    crowd.gate.set()
    await slow.asked.wait()
    assert crowd.runs[WAITER].put_off >= freed_at - waits_at
    slow.gate.set()
    await crowd.world.reported(2)


async def test_what_is_waited_behind_its_start_by_counts(crowd: Crowd) -> None:
    """Others may take the task over after its timeout and the grace."""
    await crowd.both_come()
    run, clock = crowd.runs[WAITER], crowd.world.clock
    latest = clock.seconds() + 0.05
    run.begin(latest + 60.0, clock.seconds, latest)
    await asyncio.sleep(0.2)
    crowd.gate.set()
    await crowd.world.reported(2)
    assert crowd.called[WAITER] is run
    assert run.deadline is not None
    began_at = crowd.report(WAITER).started_at
    assert began_at is not None
    assert run.put_off <= latest - began_at


async def test_a_connection_is_free_again_whatever_became_of_those_that_waited(
    crowd: Crowd,
) -> None:
    await crowd.both_come(timeout=0.1)
    await crowd.world.reported(1)
    crowd.gate.set()
    await crowd.world.reported(2)
    crowd.world.send("hold", 3, 4, timeout=60.0)
    await crowd.world.reported(4)
    assert crowd.called.keys() == {HOLDER, 3, 4}
    assert crowd.world.errors() == {(OutcomeKind.FAILED, "ValueError: no store completes it")}
