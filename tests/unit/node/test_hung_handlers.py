"""A worker whose handlers ignore being told to stop, without a store: every report is counted."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest
from tests.unit.node.worker_world import PATIENCE, SLOTS, World, slots_now, working
from tests.waiting import eventually

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.task import DeliveryMode, TaskKey
from gnomon.node.run.threads import TooManyHung
from gnomon.observe.events import HandlerHung, HandlerReturned


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.gate.set()
    made.thread_gate.set()


async def test_hung_handlers_are_reported_once_and_their_slots_replaced(world: World) -> None:
    async with working(world):
        world.send("hang", *range(6))  # three times as many as there are slots
        await world.reported(6)
        error = "did not end within 0.1 s; it ignored its cancellation"
        assert world.errors() == {(OutcomeKind.TIMED_OUT, error)}
        assert len(world.begun) == 6
        assert slots_now() == 6 + SLOTS
        world.send("work", *range(10, 20))
        await world.reported(16)
        hung = [e for e in world.events if isinstance(e, HandlerHung)]
        assert {e.handler.key.id.int for e in hung} == set(range(6))
        assert {(e.handler.function, e.handler.in_thread) for e in hung} == {("hang", False)}
        assert all(PATIENCE <= e.seconds < 30 for e in hung)
        world.gate.set()
        await world.told(HandlerReturned, 6)
        await eventually(fewer_slots())
        world.send("work", 20)
        await world.reported(17)
    ids = [r.delivery.key.id.int for r in world.reports]
    assert len(set(ids)) == len(ids)


def fewer_slots() -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return slots_now() == SLOTS

    return look


async def test_a_handler_that_ends_within_the_patience_keeps_its_slot(world: World) -> None:
    async with working(world):
        world.send("hang", 1)
        await world.has_begun(1)

        async def told_to_stop() -> bool:
            (execution,) = world.runner.running.values()
            return execution.stop is not None

        await eventually(told_to_stop)
        world.gate.set()
        await world.reported(1)
        assert world.errors() == {(OutcomeKind.SUCCEEDED, None)}
        assert slots_now() == SLOTS
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
        assert slots_now() == SLOTS
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
        await world.reported(SLOTS + 1)
        assert slots_now() == SLOTS
    error = "its slot was cancelled from within"
    assert world.errors() == {(OutcomeKind.FAILED, error), (OutcomeKind.SUCCEEDED, None)}


async def test_the_end_of_a_worker_waits_for_no_hung_handler(world: World) -> None:
    async with working(world):
        world.send("hang", 1, timeout=60.0)  # would not be given up for a long time
        await world.has_begun(1)
        stopped_at = time.monotonic()
    assert time.monotonic() - stopped_at < 30
    assert slots_now() == 1
    world.gate.set()

    async def gone() -> bool:
        return slots_now() == 0

    await eventually(gone)


async def test_what_was_completed_by_the_function_says_so_however_it_is_cut_off(
    world: World,
) -> None:
    """Its transaction may have been committed, and then no settlement is stale."""
    async with working(world):
        world.send("complete_and_hang", 1)
        world.send("complete_and_wait", 2)
        await world.reported(2)
    assert {kind for kind, _ in world.errors()} == {OutcomeKind.TIMED_OUT}
    assert [r.outcome and r.outcome.completed_by_handler for r in world.reports] == [True, True]


async def test_a_node_that_can_call_no_more_functions_ends(world: World) -> None:
    running = asyncio.create_task(world.worker.run())
    world.send("hang_in_thread", *range(SLOTS * 10 + SLOTS))  # some may begin beside the tenth
    await asyncio.wait([running], timeout=30)
    assert running.done()
    with pytest.raises(ExceptionGroup) as died:
        await running
    assert died.group_contains(TooManyHung, match="handlers hang in threads of this node")
    world.python.__exit__()


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        (DeliveryMode.AT_LEAST_ONCE, None),
        (DeliveryMode.AT_MOST_ONCE, "asked to be called again, which at_most_once never is"),
    ],
)
async def test_a_snooze_that_cannot_be_granted_says_why(
    world: World, mode: DeliveryMode, error: str | None
) -> None:
    world.answered.set()
    async with working(world):
        world.send("snooze", 1, mode=mode)
        await world.reported(1)
    assert world.errors() == {(OutcomeKind.SNOOZED, error)}


async def test_one_whose_task_was_claimed_again_can_still_be_ended(world: World) -> None:
    key = world.delivery("wait", 1, 60.0).key
    async with working(world):
        for fence in (1, 2):
            world.send("wait", 1, timeout=60.0, fence=fence)
        await world.has_begun(2)
        assert world.worker.interrupt(key, "it runs elsewhere", fence=1)
        await world.reported(1)
        assert not world.worker.interrupt(key, "it runs elsewhere", fence=1)
        assert world.worker.interrupt(key, "cancelled")
        await world.reported(2)
        assert not world.worker.interrupt(key, "cancelled")
    assert [report.delivery.fence for report in world.reports] == [1, 2]


async def test_one_that_runs_is_ended_though_an_earlier_claim_of_it_is_held(world: World) -> None:
    earlier = world.delivery("wait", 1, 60.0, fence=1)
    async with working(world):
        world.send("wait", 1, timeout=60.0, fence=2)
        await world.has_begun(1)
        world.pipe.hold([earlier])
        assert world.worker.interrupt(earlier.key, "cancelled")
        await world.reported(2)
        assert not world.worker.interrupt(earlier.key, "cancelled")
    assert [report.delivery.fence for report in world.reports] == [1, 2]


async def test_one_whose_task_was_claimed_again_has_its_timeout(world: World) -> None:
    async with working(world):
        world.send("wait", 1, timeout=0.1, fence=1)
        world.send("wait", 1, timeout=60.0, fence=2)
        await world.reported(1)
    assert world.reports[0].delivery.fence == 1
    assert world.errors() == {(OutcomeKind.TIMED_OUT, "did not end within 0.1 s")}
