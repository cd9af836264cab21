"""An execution under way, and what it comes to when it is told to stop."""

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple, assert_never

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import (
    HttpTarget,
    NotificationTarget,
    PythonTarget,
    Target,
    WorkflowTarget,
)
from gnomon.node.run import stacks
from gnomon.observe.events import RunningTarget
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.executing.failure import describe, traceback_of

# Outcomes that ask where the handler was: whoever cancelled or preempted it knows why it ended.
_TELLING = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT)
_FROM_WITHIN = "its slot was cancelled from within"


class Stop(NamedTuple):
    """That an execution was told to stop: what that makes of it, why, and when (monotonic)."""

    kind: OutcomeKind
    reason: str
    at: float


class RunningExecution:
    """The execution that a slot is busy with. Its deadline is that of the call once it has begun,
    and before that the moment when the task must be released."""

    __slots__ = (
        "begun", "call", "context", "deadline", "delivery", "given_up", "rest", "slot",
        "started_at", "stop", "where",
    )  # fmt: skip

    def __init__(
        self, delivery: Delivery, slot: "asyncio.Task[None]", context: TaskContext | None = None
    ) -> None:
        self.delivery = delivery
        self.slot = slot
        self.context = TaskContext(delivery) if context is None else context
        self.call: object = None  # the coroutine of the call, once it was made
        self.rest: Awaitable[Outcome | None] | None = None  # of a call that waits, to be awaited
        self.begun = False  # the call; before that, its payload is fetched
        self.started_at = 0.0
        self.deadline = float("inf")
        self.stop: Stop | None = None
        self.given_up = False
        self.where: str | None = None  # the stack of a handler that was told to stop

    def interrupt(self, stop: Stop) -> None:
        """End it now. The slot that runs it goes on with the next task."""
        self.stop = stop
        self.context.tell_to_stop()
        self.look()
        self.slot.cancel()

    def look(self) -> None:
        """See where the handler is that did not end in time. Threads and other processes tell that
        by themselves."""
        late = self.stop is not None and self.stop.kind is OutcomeKind.TIMED_OUT
        if late and self.begun and isinstance(self.delivery.target, PythonTarget):
            self.where = stacks.of_coroutine(self.call)

    def is_overdue(self, now: float) -> bool:
        """Whether its time is up, and it was not told so; `now` is monotonic."""
        return self.stop is None and self.deadline + self.context.put_off <= now

    @property
    def is_preempted(self) -> bool:
        return self.stop is not None and self.stop.kind is OutcomeKind.PREEMPTED

    def cut_short(self, note: str = "") -> Outcome | None:
        """Its outcome when it did not end by itself. None: the call was not made."""
        if self.stop is not None:
            return self._outcome(self.stop.kind, self.stop.reason + note)
        if self.slot.cancelling():
            return self._outcome(OutcomeKind.FAILED, _FROM_WITHIN + note)
        # Nobody told the slot to stop: something that the target waited for was cancelled.
        return self._outcome(OutcomeKind.FAILED, "CancelledError" + note)

    def failed(self, error: BaseException) -> Outcome | None:
        """Its outcome after the handler raised this."""
        self.where = traceback_of(error)
        return self._outcome(OutcomeKind.FAILED, describe(error))

    def came_to(self, outcome: Outcome | None) -> Outcome | None:
        """Its outcome, after the call gave this one. One that failed while it gave way may have
        failed of that, so it is not held against the task."""
        if not self.is_preempted or outcome is None or outcome.kind is not OutcomeKind.FAILED:
            return outcome
        return self.cut_short(f"; {outcome.error}") if outcome.retryable else outcome

    def _outcome(self, kind: OutcomeKind, error: str) -> Outcome | None:
        if not self.begun:
            return None
        return Outcome(
            kind,
            error=error,
            completed_by_handler=self.context.completed,
            traceback=self.where if kind in _TELLING else None,
        )

    def handler(self, *, in_thread: bool) -> RunningTarget:
        return RunningTarget(
            key=self.delivery.key,
            task_type=self.delivery.task_type,
            attempt=self.delivery.attempt,
            origin=self.delivery.origin,
            function=_function_in(self.delivery.target),
            in_thread=in_thread,
        )


def _function_in(target: Target) -> str | None:
    match target:
        case HttpTarget() | GrpcTarget() | QueueTarget() | NotificationTarget() | WorkflowTarget():
            return None
        case PythonTarget():
            return target.function
        case _:
            assert_never(target)
