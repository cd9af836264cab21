"""Service levels of a task: whether it started by its deadline, and whether an execution was slow.

Pure. A task with a level is looked at from time to time, until it has ended. All that the judgement
rests on is stored with the task and its executions, so nothing is lost between two looks, whoever
looks next and however late."""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

# A start that was made in time, by a statement that is still under way, is not seen yet: every look
# is so much later than its time.
COMMIT = timedelta(seconds=1)
# A task that waits for long is looked at ever more seldom: each time after this part of its wait.
_PART_OF_WAIT = 0.1
_PAUSED = timedelta(minutes=10)  # whoever resumes a task has it looked at in time


class LiveTask(msgspec.Struct, frozen=True):
    """A watched task that has not ended."""

    due_at: datetime
    started_at: datetime | None
    attempt: int
    fence: int
    running: bool
    paused: bool
    dead: bool


class EndedTask(msgspec.Struct, frozen=True):
    """A watched task that is archived."""

    finished_at: datetime
    started_at: datetime | None
    cancelled: bool


class PastExecution(msgspec.Struct, frozen=True):
    """An execution that ran for at least as long as its level says; `finished_at` is None while it
    runs."""

    fence: int
    attempt: int
    started_at: datetime
    finished_at: datetime | None = None


class WatchedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task with a level, as it is found; deleted where it is neither `live` nor `ended`."""

    tenant_id: str
    task_id: UUID
    task_type: str = ""
    cron_job_id: UUID | None = None
    sla_seconds: float | None = None
    warn_after_seconds: float | None = None
    start_by: datetime | None = None
    start_judged: bool = False
    slow: bool = False
    told_fence: int = -1
    live: LiveTask | None = None
    ended: EndedTask | None = None
    first_started_at: datetime | None = None  # of the executions that are stored as ended
    last_slow: PastExecution | None = None  # of those that ended, and were not told yet


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a look found out. None: nothing new."""

    start_kept: bool | None = None
    started_at: datetime | None = None  # where that is known
    run_kept: bool | None = None
    slow: PastExecution | None = None  # to be told
    look_at: datetime | None = None  # again; None: everything is judged


def judge(task: WatchedTask, now: datetime, slot_wait: timedelta) -> Judgement:
    """Judge a task. A claimed task may wait for a slot for `slot_wait`, and be released until then:
    whether it has started is not known so long."""
    if task.live is None and task.ended is None:
        return Judgement()  # deleted
    start_kept, started_at, start_look = _start(task, now, slot_wait)
    slow, over, run_look = _run(task, now)
    run_kept = None
    if task.warn_after_seconds is not None and not task.slow:
        ran = started_at is not None or _first_start(task) is not None
        run_kept = False if slow is not None else True if over and ran else None
    looks = [look for look in (start_look, run_look) if look is not None]
    return Judgement(
        start_kept=start_kept,
        started_at=started_at,
        run_kept=run_kept,
        slow=slow,
        look_at=min(looks, default=None),
    )


def _start(
    task: WatchedTask, now: datetime, slot_wait: timedelta
) -> tuple[bool | None, datetime | None, datetime | None]:
    """Whether it started in time, when it did, and when to look again."""
    if task.start_by is None or task.sla_seconds is None:
        return None, None, None
    first, live = _first_start(task), task.live
    if first is not None:
        claimed = live is not None and live.running and task.first_started_at is None
        if claimed and first <= task.start_by and now < first + slot_wait:
            return None, None, first + slot_wait
        return first <= task.start_by, first, None
    if live is None:
        assert task.ended is not None
        withdrawn = task.ended.cancelled and task.ended.finished_at <= task.start_by
        return None if withdrawn else False, None, None
    if live.paused:
        return None, None, now + _PAUSED
    if live.dead:
        return False, None, None
    if now < task.start_by + COMMIT:
        return None, None, task.start_by
    return False, None, None


def _first_start(task: WatchedTask) -> datetime | None:
    holder = task.live or task.ended
    latest = None if holder is None else holder.started_at
    known = [moment for moment in (task.first_started_at, latest) if moment is not None]
    return min(known, default=None)


def _run(task: WatchedTask, now: datetime) -> tuple[PastExecution | None, bool, datetime | None]:
    """The execution to be told as slow, whether none will follow, and when to look again."""
    if task.warn_after_seconds is None:
        return None, False, None
    limit, live, slow = timedelta(seconds=task.warn_after_seconds), task.live, task.last_slow
    if live is None or live.dead:
        return slow, True, None
    if live.running and live.started_at is not None:
        passes = live.started_at + limit
        if now < passes:
            return slow, False, passes
        if live.fence > task.told_fence:
            slow = PastExecution(live.fence, live.attempt, live.started_at)
        return slow, False, now + limit  # the next execution cannot be slow before that
    if live.paused:
        return slow, False, now + _PAUSED
    waited = max(now - live.due_at, timedelta())
    return slow, False, max(now, live.due_at) + max(limit, waited * _PART_OF_WAIT)
