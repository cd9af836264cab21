"""Acts on tasks that were settled, by the recorder or by a takeover alike.

One that waits again for a time near by goes straight back on the agenda, and so do tasks of a
workflow that waited for it; a cron job whose run has ended may start a queued one; whoever listens
is told. All of it is a matter of speed, or of
knowledge: scans find all but the last without it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import compress, starmap
from typing import Protocol

from gnomon.clock import Clock
from gnomon.model.outcomes.verdict import COMPLETE, VerdictKind
from gnomon.model.targets.target import Target
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.stage import AheadStage
from gnomon.node.buried import tell_buried
from gnomon.observe.counts import Counted, EndCount, by_kind, end_count
from gnomon.observe.events import (
    Observer,
    SettlementsPresumed,
    TaskBatch,
    TaskSettled,
    TasksSettled,
)
from gnomon.store.ports.dispatch import Buried, Entry, Settled, Settlement

# The state that follows from a verdict, unless a cancellation was requested.
_STATES = {
    VerdictKind.COMPLETE: State.COMPLETED,
    VerdictKind.RETRY: State.WAITING,
    VerdictKind.DEAD_LETTER: State.DEAD,
    VerdictKind.RELEASE: State.WAITING,
    VerdictKind.EXPIRE: State.EXPIRED,
}


class Claimed(Protocol):
    """A task that was settled, as it was claimed: a `Delivery`, or a `RunningTask`."""

    @property
    def key(self) -> TaskKey: ...
    @property
    def task_type(self) -> str: ...
    @property
    def lane(self) -> Lane: ...
    @property
    def target(self) -> Target: ...
    @property
    def flow(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def recurring(self) -> bool: ...
    @property
    def origin(self) -> Origin | None: ...


class FollowUp:
    """Hints to the stage that knows what is coming, and tells who listens."""

    def __init__(
        self,
        ahead: AheadStage,
        clock: Clock,
        horizon_seconds: float,
        emit: Observer,
        on_steps: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_steps = on_steps  # a workflow has steps that no statement takes
        self._ahead = ahead
        self._clock = clock
        self._horizon = timedelta(seconds=horizon_seconds)
        self._emit = emit

    def settled(
        self,
        tasks: Sequence[Claimed],
        settlements: Sequence[Settlement],
        settled: Sequence[Settled],
    ) -> None:
        """Of these tasks, with their settlements, some were accepted."""
        if not settled:
            return
        followed = [
            s for s in settled if s.due_at or s.cron_job_id or s.children or s.steps
        ]  # few, mostly
        if followed:
            self._hint_all(tasks, settlements, followed)
        self._emit(
            TasksSettled(
                TaskBatch(lambda: _told(tasks, settlements, settled)),
                Counted(lambda: _counted(tasks, settlements, settled)),
            )
        )

    def _hint_all(
        self,
        tasks: Sequence[Claimed],
        settlements: Sequence[Settlement],
        settled: Sequence[Settled],
    ) -> None:
        again = {s.key: s.due_at for s in settled if s.due_at is not None}
        if again:
            self._hint(tasks, settlements, again)
        jobs = {
            TaskKey(s.key.tenant_id, s.cron_job_id)
            for s in settled
            if s.cron_job_id is not None and s.ended
        }
        if jobs:
            self._ahead.runs_ended(jobs)
        children = [entry for s in settled for entry in s.children]
        if children:
            self._ahead.started(children)
        if any(s.steps for s in settled):
            self._on_steps()

    def presumed(self, settlements: Sequence[tuple[Claimed, Settlement]]) -> None:
        """These were refused, and are there already: see `SettlementsPresumed`."""
        if settlements:
            self._emit(SettlementsPresumed(Counted(lambda: _presumed(settlements))))

    def buried(self, buried: Sequence[Buried]) -> None:
        """These could not be settled, and are dead letters."""
        tell_buried(self._emit, buried)

    def _hint(
        self,
        tasks: Sequence[Claimed],
        settlements: Sequence[Settlement],
        again: dict[TaskKey, datetime],
    ) -> None:
        until = self._clock.now() + self._horizon
        entries = []
        for task, settlement in zip(tasks, settlements, strict=True):
            due_at = again.get(task.key)
            if due_at is not None and due_at <= until:
                losses = settlement.verdict.losses
                by_handler = task.target.by_handler
                entries.append(
                    Entry(task.key, due_at, task.lane, losses, False, task.flow, by_handler)
                )
        self._ahead.hear(entries)


def _told(
    tasks: Sequence[Claimed], settlements: Sequence[Settlement], settled: Sequence[Settled]
) -> Iterator[TaskSettled]:
    accepted = {(s.key, s.fence): s for s in settled}
    for task, settlement in zip(tasks, settlements, strict=True):
        written = accepted.get((task.key, settlement.fence))
        if written is None:
            continue
        yield TaskSettled(
            key=task.key,
            task_type=task.task_type,
            lane=task.lane,
            attempt=task.attempt,
            outcome=settlement.outcome,
            verdict=settlement.verdict.kind,
            state=written.state,
            started_at=_moment(settlement.started_at),
            finished_at=_moment(settlement.finished_at),
            error=settlement.error,
            due_at=written.due_at,
            cron_job_id=written.cron_job_id,
            origin=task.origin,
        )


def _counted(
    tasks: Sequence[Claimed], settlements: Sequence[Settlement], settled: Sequence[Settled]
) -> Iterator[EndCount]:
    """Mostly all of them were accepted and have succeeded, and no state has to be looked up."""
    completed = [s.verdict is COMPLETE for s in settlements]
    if len(settled) == len(settlements) and all(completed):
        return _grouped(tasks, settlements, [State.COMPLETED] * len(settled))
    states = {(s.key, s.fence): s.state for s in settled}
    found = [states.get((t.key, s.fence)) for t, s in zip(tasks, settlements, strict=True)]
    accepted = [state is not None for state in found]
    return _grouped(
        list(compress(tasks, accepted)),
        list(compress(settlements, accepted)),
        [state for state in found if state is not None],
    )


def _presumed(settlements: Sequence[tuple[Claimed, Settlement]]) -> Iterator[EndCount]:
    tasks, ends = [task for task, _ in settlements], [end for _, end in settlements]
    return _grouped(tasks, ends, [_STATES[end.verdict.kind] for end in ends])


def _grouped(
    tasks: Sequence[Claimed], settlements: Sequence[Settlement], states: Sequence[State]
) -> Iterator[EndCount]:
    columns = (
        [t.key.tenant_id for t in tasks],
        [t.task_type for t in tasks],
        [t.lane for t in tasks],
        [t.recurring for t in tasks],
        [s.outcome for s in settlements],
        [s.internal for s in settlements],
        states,
    )
    spent = [
        0.0
        if (began := s.started_at) is None or (ended := s.finished_at) is None or ended < began
        else ended - began
        for s in settlements
    ]
    return starmap(end_count, by_kind(columns, spent).items())


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
