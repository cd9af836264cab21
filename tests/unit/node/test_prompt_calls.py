"""Calls are stepped once before anything is made for them. What waits goes on as it always did."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.node.worker_world import SLOTS, World, working

from gnomon.model.outcomes.outcome import SUCCESS, Outcome, OutcomeKind
from gnomon.node.run.runner import resumed


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.gate.set()
    made.thread_gate.set()


async def outcome_after(*waits: "asyncio.Future[Any]") -> Outcome | None:
    for wait in waits:
        await wait
    return SUCCESS


async def test_the_rest_of_a_call_gives_what_the_call_gives() -> None:
    waits = [asyncio.get_running_loop().create_future() for _ in range(3)]
    call = outcome_after(*waits)
    rest = asyncio.ensure_future(_awaited(resumed(call, call.send(None))))
    for wait in waits:
        await asyncio.sleep(0)
        assert not rest.done()
        wait.set_result(None)
    assert await rest is SUCCESS


@pytest.mark.parametrize("undeterred", [0, 1, 2])
async def test_the_rest_of_a_call_can_be_told_to_stop(undeterred: int) -> None:
    ready = asyncio.Event()
    call = _stubborn(ready, undeterred)
    rest = asyncio.ensure_future(_awaited(resumed(call, call.send(None))))
    for _ in range(undeterred):
        await asyncio.sleep(0)
        rest.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not rest.done()
    rest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rest


async def test_a_call_that_is_dropped_is_closed() -> None:
    closed: list[bool] = []

    async def dropped() -> Outcome | None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)
        return None

    call = dropped()
    rest: Any = resumed(call, call.send(None))
    next(rest)
    rest.close()
    assert closed == [True]


async def test_what_ends_at_once_was_never_known_to_run(world: World) -> None:
    async with working(world):
        world.send("work", *range(20))
        await world.reported(20)
    assert world.numbers() == list(range(20))
    assert len(set(world.slots)) == 1  # one slot has done all of it
    assert not world.runner.running


async def test_what_waits_leaves_the_others_to_other_slots(world: World) -> None:
    async with working(world):
        world.send("wait", *range(SLOTS), timeout=60.0)
        await world.has_begun(SLOTS)
        assert len(world.runner.running) == SLOTS
        world.gate.set()
        await world.reported(SLOTS)
    assert {r.outcome.kind for r in world.reports if r.outcome} == {OutcomeKind.SUCCEEDED}


async def test_functions_that_do_not_wait_leave_the_loop_to_others_now_and_then() -> None:
    turns = 0

    async def block(payload: Any) -> None:
        time.sleep(0.004)  # without a pause for anybody else

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    world = World(None, block)
    async with working(world):
        counting = asyncio.ensure_future(count())
        world.send("block", *range(30), timeout=60.0)
        await world.reported(30)
        counting.cancel()
    assert turns >= 5  # not all thirty in one go


async def _awaited(call: Any) -> Any:
    return await call


async def _stubborn(ready: asyncio.Event, undeterred: int) -> Outcome | None:
    for _ in range(undeterred):
        try:
            await ready.wait()
        except asyncio.CancelledError:
            continue
    await ready.wait()
    return SUCCESS
