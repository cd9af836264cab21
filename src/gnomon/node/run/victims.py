"""Which running task ends first to make room for a CRITICAL one. Pure."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from gnomon.model.priority import Lane
from gnomon.node.run.task_context import TaskContext
from gnomon.pipe.envelope import Delivery

LAST_PREEMPTED_ATTEMPT = 5  # or a task could be preempted for ever


class Running(Protocol):
    """What is looked at in a try."""

    @property
    def delivery(self) -> Delivery: ...
    @property
    def started_at(self) -> float: ...
    @property
    def run(self) -> TaskContext: ...
    @property
    def reason(self) -> str | None:
        """Why it was told to stop."""


T = TypeVar("T", bound=Running)


def may_give_way(attempt: Running) -> bool:
    """Whether the try can be ended, and has not been told to."""
    delivery, run = attempt.delivery, attempt.run
    return (
        delivery.preemptible
        and delivery.lane is not Lane.CRITICAL
        and delivery.attempt <= LAST_PREEMPTED_ATTEMPT
        and attempt.reason is None
        and not run.in_thread  # which nothing can stop
        and not run.completed  # it is about to end, and well
    )


def victims(running: Iterable[T], most: int) -> list[T]:
    """The lowest priority first; among equals the last to start, which has the least to lose."""
    fit = [attempt for attempt in running if may_give_way(attempt)]
    fit.sort(key=lambda a: (a.delivery.lane, a.started_at, a.delivery.key), reverse=True)
    return fit[:most]
