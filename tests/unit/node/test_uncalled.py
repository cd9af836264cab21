"""Tries that end before their call was made: they are given back, and no retry is spent."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.node.worker_world import APART, World, working
from tests.waiting import eventually

from gnomon.model.errors import StoreUnavailable
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.node.start_checks import StartCheck, StartChecks
from gnomon.pipe.envelope import Delivery


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.gate.set()
    made.thread_gate.set()


async def test_a_payload_that_cannot_be_read_now(world: World) -> None:
    world.payload = StoreUnavailable("away")
    world.answered.set()
    async with working(world):
        world.send("work", 1, **APART)
        await world.reported(1)
        assert world.reports[0].outcome is None
        world.payload = b"{}"
        world.send("work", 1, **APART)
        await world.reported(2)
    assert world.errors() == {(OutcomeKind.SUCCEEDED, None)}


async def test_a_payload_that_is_gone_is_no_outage(world: World) -> None:
    world.payload = None
    world.answered.set()
    async with working(world):
        world.send("work", 1, **APART)
        await world.reported(1)
    assert world.errors() == {(OutcomeKind.FAILED, "its payload is gone")}
    assert world.begun == []


async def test_a_lease_that_has_run_out_when_the_payload_comes(world: World) -> None:
    async with working(world):
        world.send("work", 1, **APART)
        await world.asked.wait()
        world.lease.lost = True
        world.answered.set()
        await world.reported(1)
    assert world.reports[0].outcome is None
    assert world.begun == []


async def test_a_lease_that_has_run_out_when_a_thread_is_there() -> None:
    called = []

    def in_thread(payload: object) -> None:
        called.append(payload)

    world = World(None, in_thread)
    world.may_begin = False
    async with working(world):
        world.send("in_thread", 1, timeout=60.0)
        await world.reported(1)
        assert world.reports[0].outcome is None
        world.may_begin = True
        world.send("in_thread", 1, timeout=60.0)
        await world.reported(2)
    assert world.errors() == {(OutcomeKind.SUCCEEDED, None)}
    assert len(called) == 1


async def test_time_to_start_that_is_used_up_by_the_payload(world: World) -> None:
    async with working(world):
        world.send("work", 1, start_by=world.clock.seconds() + 0.1, **APART)
        await world.reported(1)
    assert world.reports[0].outcome is None
    assert world.begun == []


async def test_time_to_start_that_is_used_up_by_waiting_for_memory(world: World) -> None:
    world.answered.set()
    async with working(world):
        world.send("wait", 1, timeout=60.0, **APART)
        await world.has_begun(1)
        world.send("work", 2, start_by=world.clock.seconds() + 0.1, **APART)
        await world.reported(1)
        assert world.reports[0].outcome is None
        world.gate.set()
        world.send("work", 3, timeout=60.0, **APART)
        await world.reported(3)
    assert world.begun == ["wait", "work"]


async def test_the_time_of_a_call_begins_with_the_call(world: World) -> None:
    """The payload takes longer than the call may."""
    timeout = 0.3
    async with working(world):
        world.send("work", 1, timeout=timeout, **APART)
        await world.asked.wait()
        sent_at = world.clock.seconds()
        await asyncio.sleep(2 * timeout)
        world.answered.set()
        await world.reported(1)
    assert world.errors() == {(OutcomeKind.SUCCEEDED, None)}
    started_at = world.reports[0].started_at
    assert started_at is not None
    assert started_at >= sent_at + 2 * timeout


async def test_a_timeout_of_nothing_is_none(world: World) -> None:
    """As older rows may hold it: the call is made, and ends as it ends."""
    async with working(world):
        world.send("work", 1, timeout=0.0)
        await world.reported(1)
    assert world.begun == ["work"]


async def test_an_interrupt_that_comes_first(world: World) -> None:
    async with working(world):
        world.send("work", 1, timeout=60.0, **APART)
        await world.asked.wait()
        assert world.worker.interrupt(world.delivery("work", 1, 0.1).key, "cancelled")
        await world.reported(1)
    assert world.reports[0].outcome is None


async def test_a_payload_that_comes_after_the_try_was_given_up_is_not_used(world: World) -> None:
    world.stubborn = True  # the store answers although nobody waits
    async with working(world):
        world.send("work", 1, start_by=world.clock.seconds() + 0.1, **APART)
        await world.reported(1)
        assert world.reports[0].outcome is None
        world.answered.set()

        async def came_back() -> bool:
            return not world.fetching

        await eventually(came_back)
        world.send("work", 2, timeout=60.0)
        await world.reported(2)
    assert world.begun == ["work"]
    assert world.reports[-1].delivery.key.id.int == 2


async def test_a_check_that_fails_costs_no_time_of_the_target() -> None:
    """The report says when, though the call was not made: its seconds are counted and charged."""

    class Broken(StartCheck):
        def may_call(self, delivery: Delivery) -> bool:
            raise KeyError("a bug")

    world = World(StartChecks([Broken()]))
    began = world.clock.seconds()
    async with working(world):
        world.send("work", 1)
        await world.reported(1)
    (report,) = world.reports
    assert report.outcome is not None
    assert report.outcome.error == "internal error: KeyError"
    assert report.started_at is not None
    assert report.started_at >= began
