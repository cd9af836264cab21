"""How close two fires of a schedule come."""

from datetime import datetime, timedelta
from itertools import islice

from gnomon.cron.schedule import Schedule
from gnomon.model.errors import InvalidSchedule, OverQuota

# A schedule whose fires come closer only after all these is not noticed.
MOST_FIRES = 1_000
MOST_TIME = timedelta(days=3653)


def shortest_interval(schedule: Schedule, after: datetime) -> float | None:
    """The shortest time in seconds between two of the next fires; None where there are not two."""
    previous = schedule.next_after(after)
    if previous is None:
        return None
    shortest: timedelta | None = None
    for following in islice(schedule.fires(previous, previous + MOST_TIME), MOST_FIRES - 1):
        distance = following - previous
        if shortest is None or distance < shortest:
            shortest = distance
        previous = following
    return None if shortest is None else shortest.total_seconds()


def check_interval(schedule: Schedule, after: datetime, least: float | None, pointer: str) -> None:
    """Raises InvalidSchedule where fires come closer than a tenant's quota allows."""
    if least is None:
        return
    shortest = shortest_interval(schedule, after)
    if shortest is not None and shortest < least:
        raise InvalidSchedule(
            f"fires {shortest:g} seconds apart, and the quota cron_interval_seconds is {least:g}; "
            "choose times that are further apart",
            pointer,
            OverQuota("cron_interval_seconds", least, shortest),
        )
