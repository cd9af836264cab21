"""Which running task ends first to make room for a CRITICAL one. Pure."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.running_execution import Stop
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext

LAST_PREEMPTED_ATTEMPT = 5  # or a task could be preempted for ever


class Running(Protocol):
    """An execution, as far as it matters here."""

    @property
    def delivery(self) -> Delivery: ...
    @property
    def started_at(self) -> float: ...
    @property
    def context(self) -> TaskContext: ...
    @property
    def stop(self) -> Stop | None:
        """That it was told to stop."""


T = TypeVar("T", bound=Running)


def gives_way(delivery: Delivery) -> bool:
    """Whether a task may be ended for a CRITICAL one, by what it is."""
    return (
        delivery.preemptible
        and delivery.lane is not Lane.CRITICAL
        and delivery.attempt <= LAST_PREEMPTED_ATTEMPT
    )


def may_give_way(execution: Running) -> bool:
    """Whether it can be ended, and has not been told to."""
    context = execution.context
    return (
        gives_way(execution.delivery)
        and execution.stop is None
        and not context.in_thread  # which nothing can stop
        and not context.completed  # it is about to end, and well
    )


def preemption_order(running: Iterable[T]) -> list[T]:
    """The lowest priority first; among equals the last to start, which has the least to lose."""
    fit = [execution for execution in running if may_give_way(execution)]
    fit.sort(key=lambda e: rank(e.delivery, e.started_at), reverse=True)
    return fit


def rank(delivery: Delivery, started_at: float) -> tuple[Lane, float, TaskKey]:
    """The highest ends first."""
    return delivery.lane, started_at, delivery.key
