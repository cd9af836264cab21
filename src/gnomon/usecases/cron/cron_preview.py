"""Previews the fires of a schedule, before there is a job."""

from datetime import datetime

import msgspec

from gnomon.clock import Clock
from gnomon.cron.job import schedule_of
from gnomon.cron.schedule import Fire, Schedule
from gnomon.cron.warnings import warnings_of
from gnomon.usecases.checks.request_moments import utc
from gnomon.usecases.cron.cron_requests import PreviewSchedule
from gnomon.usecases.cron.definitions import previewed_of

_AT_ONCE = 20


class Preview(msgspec.Struct, frozen=True):
    """A schedule, its next fires, and what may surprise in it."""

    schedule: Schedule
    fires: list[Fire]
    warnings: list[str]


async def preview(clock: Clock, asked: PreviewSchedule) -> Preview:
    """The next fires of a schedule. Raises InvalidTask, with the place."""
    seed = "" if asked.cron_job_id is None else str(asked.cron_job_id)
    schedule = schedule_of(previewed_of(asked), seed)
    after = utc(asked.after, "/after") or clock.now()
    fires = await _fires(schedule, after, asked.count, clock)
    return Preview(schedule, fires, warnings_of(asked.cron_expression, fires, after))


async def _fires(schedule: Schedule, after: datetime, count: int, clock: Clock) -> list[Fire]:
    """A thousand fires of a rare schedule take a while: other requests get their turn in between.
    (Not in a thread: schedules are cached, shared, and stateful.)"""
    found: list[Fire] = []
    while more := schedule.preview(after, min(_AT_ONCE, count - len(found))):
        found += more
        after = more[-1].at
        await clock.sleep(0)
    return found
