"""Previews the fires of a schedule, before there is a job."""

from datetime import datetime

from gnomon.clock import Clock
from gnomon.cron.job import schedule_of
from gnomon.cron.schedule import Fire, Schedule
from gnomon.usecases.checks.request_moments import utc
from gnomon.usecases.cron.cron_requests import PreviewSchedule
from gnomon.usecases.cron.definitions import previewed_of

_AT_ONCE = 20


async def preview(clock: Clock, asked: PreviewSchedule) -> tuple[list[Fire], str]:
    """The next fires of a schedule, and its description. Raises InvalidTask, with the place."""
    seed = "" if asked.cron_job_id is None else str(asked.cron_job_id)
    schedule = schedule_of(previewed_of(asked), seed)
    after = utc(asked.after, "/after") or clock.now()
    return await _fires(schedule, after, asked.count, clock), schedule.describe()


async def _fires(schedule: Schedule, after: datetime, count: int, clock: Clock) -> list[Fire]:
    """A thousand fires of a rare schedule take a while: other requests get their turn in between.
    (Not in a thread: schedules are cached, shared, and stateful.)"""
    found: list[Fire] = []
    while more := schedule.preview(after, min(_AT_ONCE, count - len(found))):
        found += more
        after = more[-1].at
        await clock.sleep(0)
    return found
