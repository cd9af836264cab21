"""Callers: one file for each kind of target."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, assert_never

from gnomon.model.outcomes.outcome import Outcome
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import (
    HttpTarget,
    NotificationTarget,
    PythonTarget,
    Target,
    WorkflowTarget,
)
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext

MayBegin = Callable[[], bool]  # whether the lease is still trusted


def always() -> bool:
    """Of what has no lease."""
    return True


class Place(NamedTuple):
    """A resource that a call takes up while it lasts, such as a connection or a thread."""

    name: str
    room: int  # how many there are


class Caller(Protocol):
    """Calls targets of one type.

    `call` gives an outcome for everything that the target did, failure included; it raises only
    when it is cancelled, or for a fault of Gnomon's own. It is cancelled at the task's timeout.
    `run` is what the target may be told of the execution; whether it was completed, and whether it
    is called in a thread, the runner reads there even when the call never returns.

    The lease is looked at before `call`. Who waits for something in it before the target hears of
    the call looks again (`MayBegin`): the process may have stood still meanwhile.
    """

    @property
    def least_room(self) -> float:
        """The smallest number of any resource; infinite where calls take up none."""

    def place(self, target: Target) -> Place | None:
        """The resource that a call of this target takes up; None where there is enough for all."""

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        """A preparation to await before the call, outside of the target's time: it may be cancelled
        at any moment. None: nothing to prepare."""

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        """One execution. None: the target was not called after all."""


@dataclass(slots=True)
class Callers:
    """A caller for each kind of target."""

    http: Caller
    grpc: Caller
    queue: Caller
    python: Caller
    notification: Caller
    workflow: Caller
    _known: dict[type, Caller] = field(default_factory=dict, repr=False)

    def of(self, target: Target) -> Caller:
        """Asked for every call, and a `match` looks at one class after the other: once for each."""
        caller = self._known.get(type(target))
        if caller is None:
            caller = self._known[type(target)] = self._of(target)
        return caller

    def _of(self, target: Target) -> Caller:
        match target:
            case HttpTarget():
                return self.http
            case GrpcTarget():
                return self.grpc
            case QueueTarget():
                return self.queue
            case PythonTarget():
                return self.python
            case NotificationTarget():
                return self.notification
            case WorkflowTarget():
                return self.workflow
            case _:
                assert_never(target)

    @property
    def least_room(self) -> float:
        return min(caller.least_room for caller in (self.http, self.grpc, self.queue, self.python))
