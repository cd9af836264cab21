"""Slots that are cancelled by something else than the worker: every delivery is reported, once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from tests.unit.node.worker_world import ASKS, SLOTS, World, slots_now, working
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.node.run.slot_pool import SlotPool
from gnomon.node.run.targets import Caller
from gnomon.pipe.envelope import Delivery

FROM_WITHIN = "its slot was cancelled from within"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.gate.set()
    made.thread_gate.set()


async def at_work(world: World) -> None:
    """One slot, of a worker that has no other, has run something before."""
    world.send("wait", *range(SLOTS - 1), timeout=60.0)
    await world.has_begun(SLOTS - 1)
    world.send("work", 10)
    await world.reported(1)


async def test_a_late_cancellation_is_reported_as_the_failure_of_what_runs_by_then(
    world: World,
) -> None:
    async with working(world):
        await at_work(world)
        stray = world.slots[-1]
        world.send("wait", 11, timeout=60.0)
        await world.has_begun(SLOTS + 1)
        assert world.slots[-1] is stray
        stray.cancel()
        await world.reported(2)
        assert world.errors() == {(OutcomeKind.SUCCEEDED, None), (OutcomeKind.FAILED, FROM_WITHIN)}
        world.gate.set()
        world.send("work", *range(20, 30))
        await world.reported(2 + (SLOTS - 1) + 10)
        assert slots_now() == SLOTS
    ids = [r.delivery.key.id for r in world.reports]
    assert len(set(ids)) == len(ids)


async def test_what_waits_for_consent_when_its_slot_is_cancelled_is_given_back(
    world: World,
) -> None:
    async with working(world):
        await at_work(world)
        world.send("work", 11, **ASKS)
        await world.asked.wait()
        world.slots[-1].cancel()
        await world.reported(2)
        assert world.reports[-1].outcome is None
        world.answered.set()
        world.send("work", 12, **ASKS)
        await world.reported(3)
        assert slots_now() == SLOTS
    assert world.begun.count("work") == 2


class Unready:
    """A caller whose first wait for what a call needs fails."""

    def __init__(self, inner: Caller) -> None:
        self._inner = inner
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        if self._failed:
            return self._inner.ready(delivery)
        self._failed = True
        return self._fail()

    async def _fail(self) -> None:
        raise LookupError("what nobody has thought of")


async def test_what_waits_when_the_wait_fails_is_given_back(world: World) -> None:
    world.callers.python = Unready(world.python)
    async with working(world):
        world.send("work", 1)
        await world.reported(1)
        assert world.reports[-1].outcome is None
        world.send("work", *range(2, 2 + SLOTS))
        await world.reported(1 + SLOTS)
        assert slots_now() == SLOTS
    assert world.begun.count("work") == SLOTS


async def test_a_timeout_on_top_of_another_cancellation_is_reported_once(world: World) -> None:
    async with working(world):
        world.send("hang", 1, timeout=60.0)
        await world.has_begun(1)
        slot = next(iter(world.runner.running.values())).slot
        slot.cancel()
        assert world.worker.interrupt(world.delivery("hang", 1, 0.1).key, "cancelled")
        await world.reported(1)
        world.gate.set()

        async def replaced() -> bool:
            return slots_now() == SLOTS and slot.done()

        await eventually(replaced)
        await world.reported(1)


async def test_a_try_starts_when_the_store_has_consented(world: World) -> None:
    async with working(world):
        world.send("work", 1, **ASKS)
        await world.asked.wait()
        world.answered.set()
        await world.reported(1)
    (report,) = world.reports
    assert report.started_at is not None
    assert world.consented_at is not None
    assert report.started_at >= world.consented_at


async def test_nothing_is_reported_of_what_the_end_of_the_worker_cuts_off(world: World) -> None:
    async with working(world):
        world.send("wait", 1, timeout=60.0)
        await world.has_begun(1)
    assert world.reports == []
    assert slots_now() == 0


async def test_a_slot_that_is_replaced_at_the_end_has_no_successor() -> None:
    serving: list[asyncio.Task[None]] = []
    go_on = asyncio.Event()

    async def serve() -> None:
        slot = asyncio.current_task()
        assert slot is not None
        serving.append(slot)
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                slots.replace(slot)  # given up while the worker ends

    slots = SlotPool(serve, 1, SystemClock(), 30.0)
    running = asyncio.create_task(slots.run())

    async def begun() -> bool:
        return bool(serving)

    await eventually(begun)
    running.cancel()
    _, late = await asyncio.wait([running], timeout=10)
    begun_in_all = len(serving)
    go_on.set()
    await asyncio.wait(serving)
    assert not late
    assert begun_in_all == 1
