"""Running tasks that give way to CRITICAL ones, in a worker of two slots without a store."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.node.worker_world import SLOTS, World, slots_now, working
from tests.waiting import eventually

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.tasks.priority import Lane
from gnomon.node.dispatch.preemption import Preemption
from gnomon.observe.events import TaskPreempted

ERROR = "preempted by a CRITICAL task"
LOW = {"lane": Lane.LOW, "preemptible": True, "timeout": 60.0}
URGENT = {"lane": Lane.CRITICAL, "timeout": 60.0}


class Stage(World):
    """With what makes tasks give way."""

    def __init__(self) -> None:
        super().__init__()
        self.preemption = Preemption(self.pipe, self.runner, self.clock, self.events.append)

    def outcomes(self) -> dict[int, Outcome | None]:
        return {report.delivery.key.id.int: report.outcome for report in self.reports}

    def preempted(self) -> list[int]:
        return [e.key.id.int for e in self.events if isinstance(e, TaskPreempted)]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.gate.set()
    made.thread_gate.set()


async def test_one_task_gives_way_for_each_critical_one_and_no_more(stage: Stage) -> None:
    async with working(stage):
        stage.send("wait", 1, 2, **LOW)
        stage.send("work", 3, **LOW)  # prefetched: it must not get the slot
        await stage.has_begun(2)
        assert (stage.preemption.room(), stage.preemption.run_once()) == (2, 0)
        stage.send("work", 4, **URGENT)
        assert stage.preemption.room() == 1
        assert stage.preemption.run_once() == 1
        assert stage.preemption.room() == 1  # the other could give way for one more
        assert stage.preemption.run_once() == 0  # the first is still under way
        await stage.reported(3)
        assert stage.numbers()[:2] == [2, 4]
        assert stage.preempted() == [2]
        assert stage.outcomes()[2] == Outcome(OutcomeKind.PREEMPTED, error=ERROR)
        assert stage.preemption.run_once() == 0
        stage.gate.set()
        await stage.reported(4)
        assert stage.outcomes()[1] == Outcome(OutcomeKind.SUCCEEDED, result='"waited"')
        assert slots_now() == SLOTS


async def test_a_handler_that_ignores_it_is_replaced_and_nobody_else_gives_way_meanwhile(
    stage: Stage,
) -> None:
    async with working(stage):
        stage.send("wait", 1, **LOW)
        stage.send("hang", 2, **LOW)
        await stage.has_begun(2)
        stage.send("work", 3, **URGENT)
        assert stage.preemption.run_once() == 1
        assert stage.preempted() == [2]

        async def the_critical_one_ran() -> bool:
            assert stage.preemption.run_once() == 0
            return 3 in stage.numbers()

        await eventually(the_critical_one_ran)
        kept = Outcome(OutcomeKind.PREEMPTED, error=f"{ERROR}; it ignored its cancellation")
        assert stage.outcomes()[2] == kept
        assert stage.numbers() == [2, 3]


async def test_what_fails_while_it_gives_way_is_not_held_against_the_task(stage: Stage) -> None:
    async with working(stage):
        stage.send("fail_when_told", 1, 2, **LOW)
        await stage.has_begun(2)
        stage.send("work", 3, **URGENT)
        assert stage.preemption.run_once() == 1
        await stage.reported(2)
    assert stage.outcomes()[2] == Outcome(
        OutcomeKind.PREEMPTED, error=f"{ERROR}; ValueError: no way to stop"
    )


async def test_functions_in_threads_are_not_preempted(stage: Stage) -> None:
    async with working(stage):
        stage.send("hang_in_thread", 1, 2, **LOW)
        await stage.has_begun(2)
        stage.send("work", 3, **URGENT)
        assert (stage.preemption.room(), stage.preemption.run_once()) == (0, 0)
        assert stage.pipe.stranded(stage.clock.seconds()) == 1
        stage.thread_gate.set()
        await stage.reported(3)


async def test_what_completed_itself_is_left_to_its_end(stage: Stage) -> None:
    """Whether its transaction was committed, only the store can tell: so also what was told to
    stop before says of itself that it may have completed."""
    async with working(stage):
        stage.send("complete_and_wait", 1, **LOW)
        stage.send("complete_when_told", 2, **LOW)
        await stage.has_begun(1)

        async def has_completed() -> bool:
            return any(each.context.completed for each in stage.runner.running.values())

        await eventually(has_completed)
        stage.send("work", 3, 4, **URGENT)
        assert stage.preemption.run_once() == 1
        await stage.reported(3)
        assert stage.preempted() == [2]
        assert stage.outcomes()[2] == Outcome(
            OutcomeKind.PREEMPTED, error=ERROR, completed_by_handler=True
        )


async def test_nothing_gives_way_to_what_cannot_start(stage: Stage) -> None:
    async with working(stage):
        stage.send("wait", 1, 2, **LOW)
        await stage.has_begun(2)
        past = stage.clock.seconds() - 1
        stage.pipe.send(
            [
                stage.delivery("work", 3, expired=True, **URGENT),
                stage.delivery("work", 4, start_by=past, **URGENT),
            ]
        )
        assert stage.preemption.run_once() == 0
