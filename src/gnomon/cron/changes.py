"""Next fires of a job after a change, a pause, or for a backfill. Pure."""

from datetime import datetime, timedelta

import msgspec

from gnomon.cron.job import CronJob, Definition, schedule_of
from gnomon.model.errors import InvalidSchedule
from gnomon.model.meaning import meaning_of

_INSTANT = timedelta(microseconds=1)
# A definition that differs in one of these fires at other times.
_TIMES = (
    "cron_expression",
    "interval_seconds",
    "interval_from",
    "timezone",
    "dst",
    "start_date",
    "end_date",
)


def same_definition(one: Definition, other: Definition) -> bool:
    """Whether two definitions mean the same, however their payloads are written."""
    bare = [msgspec.structs.replace(d, payload_template=None) for d in (one, other)]
    return bare[0] == bare[1] and _payload(one) == _payload(other)


def next_fire_after_change(
    job: CronJob, definition: Definition, now: datetime, withdrawn: int
) -> datetime | None:
    """The fire that planning goes on with when a job gets this definition and so many planned runs
    were withdrawn. A fire that is overdue and not planned yet is kept, unless the job fires at
    other times now."""
    if _is_used_up(job, definition, withdrawn):
        return None
    moved = any(getattr(job.definition, f) != getattr(definition, f) for f in _TIMES)
    overdue = job.next_fire_at is not None and job.next_fire_at <= now
    if overdue and not moved:
        return job.next_fire_at
    return schedule_of(definition, str(job.id)).next_after(now)


def next_fire_after_pause(job: CronJob, now: datetime) -> datetime | None:
    """The fire that planning goes on with. What lay in the pause was not missed."""
    if _is_used_up(job, job.definition, 0):
        return None
    return schedule_of(job.definition, str(job.id)).next_after(now)


def fires_to_backfill(
    job: CronJob, first: datetime, last: datetime, most: int, now: datetime
) -> list[datetime]:
    """The fires from `first` to `last`, both included. Raises InvalidSchedule where they are more
    than `most`, or not of the past."""
    if last > now:
        raise InvalidSchedule("must not lie in the future; what comes fires by itself", "/to")
    fires: list[datetime] = []
    for fire in schedule_of(job.definition, str(job.id)).fires(first - _INSTANT, last):
        fires.append(fire)
        if len(fires) > most:
            detail = f"has more than {most} fires before it: shorten the range, or raise limit"
            raise InvalidSchedule(detail, "/to")
    return fires


def _is_used_up(job: CronJob, definition: Definition, withdrawn: int) -> bool:
    return definition.max_runs is not None and job.runs - withdrawn >= definition.max_runs


def _payload(definition: Definition) -> object:
    payload = definition.payload_template
    return None if payload is None else meaning_of(bytes(payload))
