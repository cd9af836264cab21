"""A cron job: its tasks, its schedule, and its rules for runs that overlap or are missed."""

import re
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from functools import lru_cache
from uuid import UUID

import msgspec

from gnomon.cron.schedule import Dst, Schedule, cron_schedule, interval_schedule
from gnomon.cron.steps import check_steps
from gnomon.cron.template import Template, template
from gnomon.model.errors import InvalidSchedule
from gnomon.model.remembered import remembered_long
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import TaskTemplate

# A fire that cannot start for so long after its time counts as missed.
DEFAULT_MISSED_AFTER = 10.0
_KEPT_BYTES = 512 * 1024  # of one payload that is read already
_MOST_BYTES = 16 * 1024 * 1024  # of all
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Overlap(StrEnum):
    """The rule for a run that is due while the one before has not ended."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"
    CANCEL_RUNNING = "cancel_running"


class Missed(StrEnum):
    """The rule for fires that no node could start in time."""

    SKIP = "skip"
    FIRE_ONCE = "fire_once"
    BACKFILL = "backfill"


class Definition(TaskTemplate, frozen=True, kw_only=True, omit_defaults=True):
    """A job as a user declares it, with every default filled in."""

    name: str
    cron_expression: str | None = None
    interval_seconds: float | None = None
    interval_from: str | None = None  # the phase: a moment, or a local time of day
    timezone: str = "UTC"
    dst: Dst = Dst()
    payload_template: msgspec.Raw | None = None
    overlap_policy: Overlap = Overlap.SKIP
    missed_run_policy: Missed = Missed.FIRE_ONCE
    missed_after_seconds: float = DEFAULT_MISSED_AFTER
    backfill_limit: int | None = None  # of missed runs that are made up for; None: all
    backfill_window_seconds: float | None = None  # how old they may be; None: any age
    start_date: datetime | None = None
    end_date: datetime | None = None
    max_runs: int | None = None
    jitter_seconds: float = 0.0
    source: str | None = None  # who declares it, so that a sync removes only what is its own


class RunKind(IntEnum):
    """The reason for a run; stored as the number, shown as the name in lower case."""

    SCHEDULED = 0
    MANUAL = 1
    BACKFILL = 2


class Skipped(IntEnum):
    """The reason why a fire has no run; stored as the number, shown in lower case."""

    MISSED = 0  # no node could start it in time
    OVERLAP = 1  # the run before had not ended
    SUPERSEDED = 2  # it waited for the run before, and the next one took its place
    NO_ROOM = 3  # the tenant, or the disk, had no room for it


class CronRun(msgspec.Struct, frozen=True, kw_only=True):
    """One occurrence of a job, with the state of its task."""

    cron_job_id: UUID
    fire_at: datetime
    kind: RunKind
    task_id: UUID | None
    skipped: Skipped | None
    missed: int  # how many fires this entry stands for, where they were missed together
    status: Status | None  # of the task; None where there is none (any more)
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int | None
    last_error: str | None
    sla_missed_at: datetime | None


class CronHistory(msgspec.Struct, frozen=True):
    """The latest fires of a job that are not in the future, newest first; and when the last of its
    runs that succeeded ended, among so many of the latest fires as are examined."""

    runs: tuple[CronRun, ...] = ()
    success_at: datetime | None = None


class CronJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands."""

    id: UUID
    tenant_id: str
    definition: Definition
    version: int  # grows with every change, so that nobody plans with a definition of yesterday
    definition_version: int = 1  # grows with its definition only, so that nobody edits an old one
    next_fire_at: datetime | None  # the first fire that is not in the ledger yet
    runs: int  # fires that were planned, which `max_runs` bounds
    active_task_id: UUID | None  # may have ended, or only be planned: see gnomon.cron.overlap
    active_run: UUID | None = None  # the same, where it has started and not ended; to be shown
    paused_at: datetime | None
    pause_reason: str | None
    paused_by: str | None = None
    created_at: datetime
    updated_at: datetime
    created_by: str | None
    history: CronHistory = CronHistory()  # to be shown


def checked(definition: Definition) -> Definition:
    """The definition, if a job can be made of it. Raises InvalidSchedule, with the place."""
    _check_name(definition.name)
    schedule_of(definition, "")
    payload_of(definition)
    _check_dates(definition)
    _check_backfill(definition)
    if definition.cron_expression is not None:
        check_steps(definition.cron_expression)
    if definition.end_date is not None and _of_any_job(definition).next_after(_BEGINNING) is None:
        raise InvalidSchedule("nothing fires between start_date and end_date", "/end_date")
    return definition


def schedule_of(definition: Definition, job_id: str) -> Schedule:
    """When the job fires; `job_id` is what `H` is the hash of."""
    expression = definition.cron_expression
    seed = job_id if expression is not None and "h" in expression.lower() else ""
    return _seeded(definition, seed)


def _of_any_job(definition: Definition) -> Schedule:
    """When jobs of this definition fire, whatever `H` comes to in each of them."""
    return _seeded(definition, None)


def _seeded(definition: Definition, seed: str | None) -> Schedule:
    d = definition
    if (d.cron_expression is None) == (d.interval_seconds is None):
        detail = "give either cron_expression or interval_seconds"
        raise InvalidSchedule(detail, "/cron_expression")
    return _schedule(
        d.cron_expression,
        d.interval_seconds,
        d.interval_from,
        d.timezone,
        d.dst,
        seed,
        d.start_date,
        d.end_date,
    )


def schedule_pointer(definition: Definition) -> str:
    """The place in a definition that says when it fires."""
    by_interval = definition.interval_seconds is not None
    return "/interval_seconds" if by_interval else "/cron_expression"


@lru_cache(maxsize=4096)
def _schedule(
    expression: str | None,
    seconds: float | None,
    phase: str | None,
    timezone: str,
    dst: Dst,
    seed: str | None,
    starts: datetime | None,
    ends: datetime | None,
) -> Schedule:
    if expression is not None:
        if phase is not None:
            raise InvalidSchedule("belongs to interval_seconds", "/interval_from")
        return cron_schedule(expression, timezone, dst, seed, starts, ends)
    assert seconds is not None, "one of the two is given"
    return interval_schedule(seconds, timezone, phase, starts, ends)


@remembered_long(_KEPT_BYTES, _MOST_BYTES)
def _template(payload_and_zone: tuple[bytes, str]) -> Template:
    """Reading a large one takes as long as running many tasks."""
    return template(*payload_and_zone)


def payload_of(definition: Definition) -> Template:
    """The payload of every run, but for what differs between them."""
    payload = definition.payload_template
    if payload is None:
        return template(None, definition.timezone)
    return _template((bytes(payload), definition.timezone))


def _check_name(name: str) -> None:
    if not name or name != name.strip():
        raise InvalidSchedule("must not be empty or begin or end with a space", "/name")
    if "/" in name or not name.isprintable():
        raise InvalidSchedule("must not contain / or control characters", "/name")
    if _UUID.fullmatch(name):
        raise InvalidSchedule("must not look like an id: jobs are found by either", "/name")


def _check_dates(definition: Definition) -> None:
    start, end = definition.start_date, definition.end_date
    if start is not None and end is not None and end <= start:
        raise InvalidSchedule("must be later than start_date", "/end_date")


def _check_backfill(definition: Definition) -> None:
    if definition.missed_run_policy is Missed.BACKFILL:
        return
    for field in ("backfill_limit", "backfill_window_seconds"):
        if getattr(definition, field) is not None:
            detail = 'is only for the missed_run_policy "backfill"'
            raise InvalidSchedule(detail, f"/{field}")
