"""Stores the progress that handlers report: for all of a node at once, every now and then."""

from collections.abc import Iterator

from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.runner import Runner
from gnomon.store.postgres.dispatch.progress import EndedProgress, PostgresProgress, ProgressNote

EVERY_SECONDS = 1.0


class ProgressKeeper:
    """Handlers report as often as they like: that is an assignment, and only the latest counts. A
    node whose handlers report nothing asks PostgreSQL nothing."""

    def __init__(self, runner: Runner, store: PostgresProgress) -> None:
        self._runner = runner
        self._store = store
        self._stored: dict[TaskKey, ProgressNote] = {}

    async def run_once(self) -> int:
        """Store what has changed; gives how many executions have."""
        notes = list(self._changed())
        running = self._runner.running
        ended = [
            EndedProgress(key, note.fence)
            for key, note in self._stored.items()
            if key not in running
        ]
        if notes or ended:
            await self._store.note(notes, ended)
            self._stored |= {note.key: note for note in notes}
            for each in ended:
                del self._stored[each.key]
        return len(notes)

    def _changed(self) -> Iterator[ProgressNote]:
        for key, execution in self._runner.running.items():
            progress = execution.context.reported
            if progress is not None:
                delivery = execution.delivery
                note = ProgressNote(
                    key, delivery.fence, delivery.incarnation, progress.fraction, progress.text
                )
                if self._stored.get(key) != note:
                    yield note
