"""The ways to run a task, one file each."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, assert_never

from gnomon.model.outcome import Outcome
from gnomon.model.target import HttpTarget, PythonTarget, Target
from gnomon.node.run.task_context import TaskContext
from gnomon.pipe.envelope import Delivery


class Place(NamedTuple):
    """What a call takes up while it lasts, of which a node has only so many."""

    name: str
    room: int  # how many there are


class Caller(Protocol):
    """Calls targets of one type.

    `call` gives an outcome for everything that the target did, failure included; it raises only
    when it is cancelled, or for a fault of Gnomon's own. It is cancelled at the task's timeout.
    `run` is what the target may be told of the try; whether it was completed, and whether it is
    called in a thread, the runner reads there even when the call never returns.
    """

    @property
    def least_room(self) -> float:
        """The least that there is of any place; infinite where no call takes up one."""

    def place(self, target: Target) -> Place | None:
        """What a call of this target takes up; None where there is enough of it for everybody."""

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        """What to wait for before the call, which is not the target's time: it may be given up at
        any moment. None: nothing."""

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        """One try. None: the target was not called after all."""


@dataclass(slots=True)
class Callers:
    """A caller for each kind of target."""

    http: Caller
    python: Caller

    def of(self, target: Target) -> Caller:
        match target:
            case HttpTarget():
                return self.http
            case PythonTarget():
                return self.python
            case _:
                assert_never(target)

    @property
    def least_room(self) -> float:
        return min(caller.least_room for caller in (self.http, self.python))
