"""Tells of the sessions of a gateway: to the store how far their tasks are, and to who listens how
many there are."""

from gnomon.chores import Service, every
from gnomon.clock import Clock
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.events import Observer
from gnomon.observe.node_events import SessionsSeen
from gnomon.pipe.http.http_pipe import HttpPipe
from gnomon.pipe.http.session import RemoteExecution
from gnomon.store.postgres.dispatch.progress import EndedProgress, PostgresProgress, ProgressNote

EVERY_SECONDS = 1.0


class SessionReporter:
    """A gateway whose workers report no progress asks PostgreSQL nothing."""

    def __init__(
        self, pipe: HttpPipe, progress: PostgresProgress, clock: Clock, emit: Observer
    ) -> None:
        self._pipe = pipe
        self._progress = progress
        self._clock = clock
        self._emit = emit
        self._told = (0, 0, 0)  # delivered, accepted, refused
        self._noted: dict[TaskKey, ProgressNote] = {}

    def services(self) -> list[Service]:
        return [
            every("count-sessions", self.tell, self._clock, EVERY_SECONDS),
            every("progress", self.note_progress, self._clock, EVERY_SECONDS),
        ]

    async def tell(self) -> SessionsSeen:
        """Tell how many sessions there are, and what has gone to them and come."""
        pipe = self._pipe
        now = (pipe.delivered, pipe.accepted, pipe.refused)
        delivered, accepted, refused = (new - old for new, old in zip(now, self._told, strict=True))
        self._told = now
        seen = SessionsSeen(
            sessions=len(pipe.sessions),
            waiting=sum(session.waiting is not None for session in pipe.sessions.values()),
            delivered=delivered,
            accepted=accepted,
            refused=refused,
        )
        self._emit(seen)
        return seen

    async def note_progress(self) -> int:
        """Store how far executions have come; gives of how many that has changed."""
        running = self._pipe.running
        notes = [
            note
            for key, execution in running.items()
            if execution.progress is not None
            and self._noted.get(key) != (note := _note_of(key, execution))
        ]
        ended = [
            EndedProgress(key, note.fence)
            for key, note in self._noted.items()
            if key not in running
        ]
        if notes or ended:
            await self._progress.note(notes, ended)
            self._noted |= {note.key: note for note in notes}
            for each in ended:
                del self._noted[each.key]
        return len(notes)


def _note_of(key: TaskKey, execution: RemoteExecution) -> ProgressNote:
    assert execution.progress is not None
    delivery = execution.delivery
    return ProgressNote(key, delivery.fence, delivery.incarnation, *execution.progress)
