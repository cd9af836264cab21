"""Whatever runs the tasks of a node, as its other parts see it: slots, or sessions elsewhere."""

from collections.abc import Mapping
from typing import Protocol

from gnomon.model.tasks.task import TaskKey


class Workers(Protocol):
    """Runs deliveries, and reports what became of them."""

    async def run(self) -> None:
        """Serve until cancelled."""

    def drain(self) -> None:
        """Start nothing more; release what has not begun."""

    def interrupt(self, key: TaskKey, reason: str) -> bool:
        """End a running task; False where it does not run here."""

    def interrupt_all(self, reason: str) -> None:
        """The node was declared dead, or its drain is over."""

    def give_up_hung(self, *, at_once: bool = False) -> None:
        """Report what goes on although it was told to stop."""


class ExecutionUnderWay(Protocol):
    """A task that runs."""

    @property
    def started_at(self) -> float: ...


class Executions(Protocol):
    """The tasks that run."""

    @property
    def running(self) -> Mapping[TaskKey, ExecutionUnderWay]: ...
