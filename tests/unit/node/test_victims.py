"""Which running task gives way first."""

import msgspec
import pytest

from gnomon.model.priority import Lane
from gnomon.node.run.task_context import TaskContext
from gnomon.node.run.victims import LAST_PREEMPTED_ATTEMPT, may_give_way, victims
from gnomon.pipe.envelope import Delivery
from gnomon.testing.pipe_contract import a_delivery


class Running:
    """A try that began so many seconds ago."""

    def __init__(self, number: int, lane: Lane, ago: float = 0.0, **values: object) -> None:
        given = {"preemptible": True, **values}
        self.delivery: Delivery = msgspec.structs.replace(a_delivery(number, lane), **given)
        self.started_at = -ago
        self.run = TaskContext(self.delivery)
        self.reason: str | None = None


def numbers(chosen: list[Running]) -> list[int]:
    return [attempt.delivery.key.id.int for attempt in chosen]


def test_the_lowest_priority_goes_first_and_then_the_last_to_start() -> None:
    running = [
        Running(1, Lane.HIGH, ago=1),
        Running(2, Lane.LOW, ago=50),
        Running(3, Lane.LOW, ago=5),
        Running(4, Lane.MEDIUM, ago=0),
        Running(5, Lane.LOW, ago=500),
    ]
    assert numbers(victims(running, 9)) == [3, 2, 5, 4, 1]
    assert numbers(victims(running, 2)) == [3, 2]
    assert numbers(victims(reversed(running), 2)) == [3, 2]
    assert victims(running, 0) == []


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
    assert numbers(victims([unfit, Running(2, Lane.HIGH)], 2)) == [2]


def test_what_was_told_to_stop_or_is_about_to_end_is_left_alone() -> None:
    told, threaded, done = (Running(number, Lane.LOW) for number in range(3))
    assert numbers(victims([told, threaded, done], 3)) == [2, 1, 0]
    told.reason = "timeout"
    threaded.run.in_thread = True
    done.run.completed = True
    assert victims([told, threaded, done], 3) == []


def test_the_last_attempt_that_gives_way() -> None:
    assert may_give_way(Running(1, Lane.LOW, attempt=LAST_PREEMPTED_ATTEMPT))
