"""The progress that handlers report, for the next poll."""

from collections.abc import Sequence
from typing import Protocol

from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.running_execution import RunningExecution
from gnomon.pipe.http.messages import WorkerProgress

EVERY_SECONDS = 1.0


class RunningExecutions(Protocol):
    """The executions of a worker."""

    @property
    def running(self) -> dict[TaskKey, RunningExecution]: ...


class ProgressNotes:
    """What has changed since the gateway was told."""

    def __init__(self, executions: RunningExecutions) -> None:
        self._executions = executions
        self._told: dict[TaskKey, WorkerProgress] = {}

    def changed(self) -> list[WorkerProgress]:
        """The latest of each execution, if it was not told."""
        return list(self._changed().values())

    def told(self, notes: Sequence[WorkerProgress]) -> None:
        """The gateway has answered these. What has ended is forgotten."""
        sent = {note.task_id: note for note in notes}
        running = self._executions.running
        for key in running:
            if (note := sent.get(key.id)) is not None:
                self._told[key] = note
        for key in [key for key in self._told if key not in running]:
            del self._told[key]

    def _changed(self) -> dict[TaskKey, WorkerProgress]:
        notes = {}
        for key, execution in self._executions.running.items():
            progress = execution.context.reported
            if progress is not None:
                fence = execution.delivery.fence
                note = WorkerProgress(
                    task_id=key.id,
                    fence=fence,
                    fraction=progress.fraction,
                    message=progress.text,
                )
                if self._told.get(key) != note:
                    notes[key] = note
        return notes
