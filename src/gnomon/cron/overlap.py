"""Overlap rules: whether a run may start while another one of its job has not ended. Pure.

The store asks with the job's row locked, so an answer is about all runs of the job at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple
from uuid import UUID

import msgspec

from gnomon.cron.job import CronJob, Missed, Overlap, RunKind, Skipped
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey

_SUPERSEDED = "skipped: the next run came before this one could start"
_QUEUED_BEFORE = "skipped: runs before it are queued"


class Decision(Enum):
    """The answer to a run that is about to start."""

    START = "start"
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"  # cancel the one that is active, and start when it has ended


class Active(msgspec.Struct, frozen=True):
    """The task that a job names as its active one, as its row says."""

    task_id: UUID
    state: State
    attempt: int
    due_at: datetime
    cancel_requested: bool = False

    def holds(self, now: datetime) -> bool:
        """Whether it keeps others from starting: it has started and not ended, or is due. One
        that only waits for its time has no more than a reservation."""
        if self.state not in (State.WAITING, State.RUNNING, State.PAUSED):
            return False
        return self.attempt > 0 or (self.state is State.WAITING and self.due_at <= now)


class JobRuns(msgspec.Struct, frozen=True):
    """A locked job, and the state of its runs."""

    job: CronJob
    active: Active | None  # as the row says; see `holds`
    queued: bool
    now: datetime

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.job.tenant_id, self.job.id)

    @property
    def running(self) -> bool:
        """Whether a run is active and not only reserved."""
        return self.active is not None and self.active.holds(self.now)

    @property
    def busy(self) -> bool:
        """Whether another run would overlap."""
        return self.queued or self.running

    def is_busy_for(self, task_id: UUID) -> bool:
        """Whether this run would overlap. The place may have been kept for it, and it must ask all
        the same: it does not overlap with itself."""
        is_active = self.active is not None and self.active.task_id == task_id
        return self.queued or (self.running and not is_active)

    @property
    def reserved(self) -> UUID | None:
        """The active run where it only waits for its time, or was paused before it started."""
        active = self.active
        if active is None or self.running or active.state not in (State.WAITING, State.PAUSED):
            return None
        return active.task_id

    def with_reservation_due(self) -> "JobRuns":
        """The same with the reserved run taken as due: it could not be taken back, as it has become
        due meanwhile or is gone, and only the next look can tell which."""
        assert self.active is not None, "only a reservation is taken back"
        due = msgspec.structs.replace(self.active, state=State.WAITING, due_at=self.now)
        return self._with(due)

    def with_started(self, task_id: UUID) -> "JobRuns":
        return self._with(Active(task_id, State.WAITING, 1, self.now))

    def with_queued(self) -> "JobRuns":
        return msgspec.structs.replace(self, queued=True)

    def _with(self, active: Active) -> "JobRuns":
        return msgspec.structs.replace(self, active=active)


class DueRun(msgspec.Struct, frozen=True):
    """A run that is due and must ask its job whether it may start."""

    key: TaskKey
    job: TaskKey
    due_at: datetime
    execute_at: datetime
    kind: int | None  # a RunKind; None: its fire is no longer in the ledger
    expired: bool
    now: datetime


class QueuedRun(NamedTuple):
    """A run that waits for the one before it."""

    key: TaskKey
    job: TaskKey
    kind: int | None


class Turn(NamedTuple):
    """A run that may start, and the job whose active run it becomes; None: no job minds."""

    run: TaskKey
    job: TaskKey | None


class Skip(NamedTuple):
    """A run that is skipped, with the reason in words and as the ledger has it."""

    run: TaskKey
    reason: str
    skipped: Skipped


class Ruling(NamedTuple):
    """The answers to a batch of due runs, to be written."""

    start: list[Turn]
    skip: list[Skip]
    queue: list[TaskKey]
    replace: list[JobRuns]  # their active runs are to be cancelled


class StopActive(Enum):
    """How an active run is ended for the sake of the next one."""

    INTERRUPT = "interrupt"  # its node is asked to
    END = "end"  # it is between two executions, and ends at once


def decide(policy: Overlap, *, active: bool, made_up: bool) -> Decision:
    """`active`: another run has not ended, or is queued before this one. `made_up`: the run makes
    up for a missed one. Those are queued, or one of them would shut out the rest."""
    if not active or policy is Overlap.ALLOW:
        return Decision.START
    if made_up or policy is Overlap.QUEUE:
        return Decision.QUEUE
    return Decision.REPLACE if policy is Overlap.CANCEL_RUNNING else Decision.SKIP


def rule(runs: Iterable[DueRun], jobs: Mapping[TaskKey, JobRuns]) -> Ruling:
    """Answer due runs in the order of their times: each sees the answers before it."""
    known = dict(jobs)
    ruling = Ruling([], [], [], [])
    for run in sorted(runs, key=lambda each: (each.due_at, each.key.id)):
        job = known.get(run.job)
        if run.expired or job is None:
            # Missed: it is claimed to be archived. Or its job is gone, and nobody minds.
            ruling.start.append(Turn(run.key, None))
            continue
        policy = job.job.definition.overlap_policy
        match decide(policy, active=job.is_busy_for(run.key.id), made_up=makes_up(run, job.job)):
            case Decision.START:
                ruling.start.append(Turn(run.key, run.job))
                known[run.job] = job.with_started(run.key.id)
            case Decision.SKIP:
                ruling.skip.append(Skip(run.key, _overlaps(job), Skipped.OVERLAP))
            case Decision.QUEUE:
                ruling.queue.append(run.key)
                known[run.job] = job.with_queued()
            case Decision.REPLACE:
                ruling.queue.append(run.key)
                ruling.replace.append(job)
                known[run.job] = job.with_queued()
    return ruling


def makes_up(run: DueRun, job: CronJob) -> bool:
    """Whether a run makes up for one that nobody started in time."""
    if run.kind == RunKind.BACKFILL:
        return True
    late = run.now - run.execute_at > timedelta(seconds=job.definition.missed_after_seconds)
    return late and job.definition.missed_run_policy is Missed.BACKFILL


def superseded(queued: Iterable[QueuedRun]) -> list[Skip]:
    """The queued runs that a replacing one takes the place of. What was asked for by name, in a
    backfill, is not dropped."""
    return [
        Skip(run.key, _SUPERSEDED, Skipped.SUPERSEDED)
        for run in queued
        if run.kind != RunKind.BACKFILL
    ]


def stop_active(job: JobRuns) -> StopActive | None:
    """How a run that waits for the active one ends it; None: it only waits."""
    active = job.active
    if active is None or job.job.definition.overlap_policy is not Overlap.CANCEL_RUNNING:
        return None
    if active.state is not State.RUNNING:
        return StopActive.END
    return None if active.cancel_requested else StopActive.INTERRUPT


def turns(
    queued: Sequence[QueuedRun], jobs: Mapping[TaskKey, JobRuns]
) -> tuple[list[Turn], list[JobRuns]]:
    """The first queued run of each job where none is active; and the jobs where one is."""
    first: dict[TaskKey, TaskKey] = {}
    for run in queued:
        first.setdefault(run.job, run.key)
    held = [jobs[job] for job in first if jobs[job].running]
    return [Turn(run, job) for job, run in first.items() if not jobs[job].running], held


def _overlaps(job: JobRuns) -> str:
    if job.active is None:
        return _QUEUED_BEFORE
    return f"skipped: the run before it had not ended (task {job.active.task_id})"
