"""Which running task gives way first."""

import msgspec
import pytest

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.priority import Lane
from gnomon.node.run.preemption_order import (
    LAST_PREEMPTED_ATTEMPT,
    may_give_way,
    preemption_order,
)
from gnomon.node.run.running_execution import Stop
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.testing.contracts.pipe import a_delivery


class Running:
    """An execution that began so many seconds ago."""

    def __init__(self, number: int, lane: Lane, ago: float = 0.0, **values: object) -> None:
        given = {"preemptible": True, **values}
        self.delivery: Delivery = msgspec.structs.replace(a_delivery(number, lane), **given)
        self.started_at = -ago
        self.context = TaskContext(self.delivery)
        self.stop: Stop | None = None


def numbers(chosen: list[Running]) -> list[int]:
    return [execution.delivery.key.id.int for execution in chosen]


def test_the_lowest_priority_goes_first_and_then_the_last_to_start() -> None:
    running = [
        Running(1, Lane.HIGH, ago=1),
        Running(2, Lane.LOW, ago=50),
        Running(3, Lane.LOW, ago=5),
        Running(4, Lane.MEDIUM, ago=0),
        Running(5, Lane.LOW, ago=500),
    ]
    assert numbers(preemption_order(running)) == [3, 2, 5, 4, 1]
    assert numbers(preemption_order(reversed(running))) == [3, 2, 5, 4, 1]


@pytest.mark.parametrize(
    "unfit",
    [
        Running(1, Lane.LOW, preemptible=False),
        Running(1, Lane.CRITICAL),
        Running(1, Lane.LOW, attempt=LAST_PREEMPTED_ATTEMPT + 1),
    ],
    ids=["did not declare it", "is CRITICAL itself", "was tried too often"],
)
def test_not_everything_can_be_preempted(unfit: Running) -> None:
    assert not may_give_way(unfit)
    assert numbers(preemption_order([unfit, Running(2, Lane.HIGH)])) == [2]


def test_what_was_told_to_stop_or_is_about_to_end_is_left_alone() -> None:
    told, threaded, done = (Running(number, Lane.LOW) for number in range(3))
    assert numbers(preemption_order([told, threaded, done])) == [2, 1, 0]
    told.stop = Stop(OutcomeKind.TIMED_OUT, "timeout", 0.0)
    threaded.context.in_thread = True
    done.context.completed = True
    assert preemption_order([told, threaded, done]) == []


def test_the_last_attempt_that_gives_way() -> None:
    assert may_give_way(Running(1, Lane.LOW, attempt=LAST_PREEMPTED_ATTEMPT))
