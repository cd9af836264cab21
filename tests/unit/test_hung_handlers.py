"""A worker whose handlers ignore being told to stop, without a store: every report is counted."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.outcome import OutcomeKind
from gnomon.model.target import PythonTarget
from gnomon.model.task import TaskKey
from gnomon.observe.events import Event, HandlerHung, HandlerReturned
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.testing.pipe_contract import a_delivery
from gnomon.worker.lease import Lease
from gnomon.worker.runner import Runner
from gnomon.worker.starter import Starter
from gnomon.worker.targets.python import PythonCaller
from gnomon.worker.worker import Worker

SLOTS = 2
PATIENCE = 0.2


class World:
    """A worker of two slots, its handlers, and all that it reports."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.reports: list[Report] = []
        self.events: list[Event] = []
        self.begun: list[str] = []
        self.gate = asyncio.Event()
        self.thread_gate = threading.Event()
        self.pipe = MemoryPipe(SLOTS, lambda: None, prefetch=100)
        self.python = PythonCaller(
            {
                "hang": self._hang,
                "hang_in_thread": self._hang_in_thread,
                "work": self._work,
                "cancel_the_slot": self._cancel_the_slot,
            },
            SLOTS,
        )
        self.runner = Runner(
            {PythonTarget: self.python}, self._payload, self.clock, 1, PATIENCE, self.events.append
        )
        lease = Lease(UUID(int=0), 3600.0)
        lease.renewed(self.clock.monotonic())
        starter = Starter(self._begin)
        self.worker = Worker(self.pipe, self.runner, starter, lease, self.clock, SLOTS)

    async def _hang(self, payload: Any) -> str:
        self.begun.append("hang")
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    def _hang_in_thread(self, payload: Any) -> str:
        self.begun.append("hang_in_thread")
        self.thread_gate.wait(60)
        return "late"

    async def _work(self, payload: Any) -> str:
        self.begun.append("work")
        return "done"

    async def _cancel_the_slot(self, payload: Any) -> None:
        slot = asyncio.current_task()
        assert slot is not None
        slot.cancel()
        await asyncio.Event().wait()

    async def _payload(self, key: TaskKey) -> bytes | None:
        raise AssertionError("every payload comes along")

    async def _begin(self, incarnation: UUID, deliveries: Any) -> set[TaskKey]:
        raise AssertionError("nobody asks")

    def send(self, function: str, *numbers: int, timeout: float = 0.1) -> None:
        self.pipe.send([self._delivery(function, n, timeout) for n in numbers])

    def _delivery(self, function: str, number: int, timeout: float) -> Delivery:
        return msgspec.structs.replace(
            a_delivery(number),
            target=PythonTarget(function),
            payload=b"{}",
            timeout_seconds=timeout,
            start_by=self.clock.now() + timedelta(hours=1),
        )

    async def reported(self, count: int) -> None:
        """So many reports, and no more."""

        async def look() -> bool:
            return len(self.reports) >= count

        await eventually(look)
        assert len(self.reports) == count

    async def has_begun(self, count: int) -> None:
        async def look() -> bool:
            return len(self.begun) == count

        await eventually(look)

    async def told(self, kind: type[Event], count: int) -> None:
        async def look() -> bool:
            return sum(isinstance(e, kind) for e in self.events) == count

        await eventually(look)

    async def collect(self) -> None:
        while True:
            self.reports += await self.pipe.reports(100)

    def errors(self) -> set[tuple[OutcomeKind, str | None]]:
        return {(r.outcome.kind, r.outcome.error) for r in self.reports if r.outcome is not None}


@asynccontextmanager
async def working(world: World) -> AsyncIterator[None]:
    running = asyncio.create_task(world.worker.run())
    collecting = asyncio.create_task(world.collect())
    try:
        yield
        assert not running.done()
    finally:
        running.cancel()
        collecting.cancel()
        await asyncio.wait([running, collecting])
        world.python.__exit__()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.gate.set()
    made.thread_gate.set()


def slots_now(world: World) -> int:
    """Coroutines that are slots of the worker, hung ones included."""
    return sum("Worker._slot" in repr(task) for task in asyncio.all_tasks())


async def test_hung_handlers_are_reported_once_and_their_slots_replaced(world: World) -> None:
    async with working(world):
        world.send("hang", *range(6))  # three times as many as there are slots
        await world.reported(6)
        error = "did not end within 0.1 s; it ignored its cancellation"
        assert world.errors() == {(OutcomeKind.TIMED_OUT, error)}
        assert len(world.begun) == 6
        assert slots_now(world) == 6 + SLOTS
        world.send("work", *range(10, 20))
        await world.reported(16)
        hung = [e for e in world.events if isinstance(e, HandlerHung)]
        assert {e.handler.task_id.int for e in hung} == set(range(6))
        assert {(e.handler.function, e.handler.in_thread) for e in hung} == {("hang", False)}
        assert all(PATIENCE <= e.seconds < 30 for e in hung)
        world.gate.set()
        await world.told(HandlerReturned, 6)
        await eventually(fewer_slots(world))
        world.send("work", 20)
        await world.reported(17)
    ids = [r.delivery.key.id.int for r in world.reports]
    assert len(set(ids)) == len(ids)


def fewer_slots(world: World) -> Callable[[], Any]:
    async def look() -> bool:
        return slots_now(world) == SLOTS

    return look


async def test_a_handler_that_ends_within_the_patience_keeps_its_slot(world: World) -> None:
    async with working(world):
        world.send("hang", 1)
        await world.has_begun(1)

        async def told_to_stop() -> bool:
            (attempt,) = world.runner.running.values()
            return attempt.reason is not None

        await eventually(told_to_stop)
        world.gate.set()
        await world.reported(1)
        assert world.errors() == {(OutcomeKind.SUCCEEDED, None)}
        assert slots_now(world) == SLOTS
    assert world.events == []


async def test_an_interrupted_handler_that_goes_on_counts_as_cancelled(world: World) -> None:
    async with working(world):
        world.send("hang", 1, timeout=60.0)
        await world.has_begun(1)
        assert world.worker.interrupt(TaskKey("tenant", UUID(int=1)), "cancelled")
        await world.reported(1)
        assert world.errors() == {(OutcomeKind.CANCELLED, "cancelled; it ignored its cancellation")}
        assert not world.worker.interrupt(TaskKey("tenant", UUID(int=1)), "cancelled")


async def test_hung_threads_are_reported_and_starve_nobody(world: World) -> None:
    async with working(world):
        world.send("hang_in_thread", *range(6))
        await world.reported(6)
        error = "did not end within 0.1 s; it goes on in its thread, which cannot be stopped"
        assert world.errors() == {(OutcomeKind.TIMED_OUT, error)}
        assert len(world.begun) == 6
        assert slots_now(world) == SLOTS
        hung = [e for e in world.events if isinstance(e, HandlerHung)]
        assert {(e.handler.function, e.handler.in_thread) for e in hung} == {
            ("hang_in_thread", True)
        }
        world.thread_gate.set()
        await world.told(HandlerReturned, 6)
        world.send("hang_in_thread", 7)
        await world.reported(7)
    assert world.reports[-1].outcome is not None
    assert world.reports[-1].outcome.result == '"late"'


async def test_a_handler_that_cancels_its_slot_takes_no_place_away(world: World) -> None:
    async with working(world):
        world.send("cancel_the_slot", *range(SLOTS))
        world.send("work", 10)
        await world.reported(1)
        assert slots_now(world) == SLOTS


async def test_the_end_of_a_worker_waits_for_no_hung_handler(world: World) -> None:
    async with working(world):
        world.send("hang", 1, timeout=60.0)  # would not be given up for a long time
        await world.has_begun(1)
        stopped_at = time.monotonic()
    assert time.monotonic() - stopped_at < 30
    assert slots_now(world) == 1
    world.gate.set()

    async def gone() -> bool:
        return slots_now(world) == 0

    await eventually(gone)
