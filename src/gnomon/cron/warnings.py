"""What is allowed and may still surprise in a schedule, in plain words. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from gnomon.cron.expression import parse
from gnomon.cron.schedule import Fire

_FAR = timedelta(days=366)
_DENSE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_ALL_DAYS, _ALL_WEEKDAYS = 31, 7


def warnings_of(expression: str | None, fires: Sequence[Fire], now: datetime) -> list[str]:
    """Of a schedule, by its expression if it has one, and its next fires after `now`."""
    found = []
    if expression is not None and _either_day(expression):
        found.append(
            "It fires on days that match the day of the month or the weekday, not only on those "
            "that match both."
        )
    if fires and (wait := fires[0].at - now) > _FAR:
        found.append(f"Its first fire is {wait.days} days away.")
    gaps = [after.at - before.at for before, after in pairwise(fires)]
    if gaps and (shortest := min(gaps)) < _DENSE:
        often = round(_DAY / shortest)
        found.append(
            f"Fires come {shortest.seconds} seconds apart: up to {often} runs a day, each of "
            "which is a task."
        )
    return found


def _either_day(expression: str) -> bool:
    """Whether both day fields leave days out, and none begins with `*`: Vixie's rule."""
    parsed = parse(expression, None)
    day, weekday = parsed.day, parsed.weekday
    restricted = day.mask.bit_count() < _ALL_DAYS and weekday.mask.bit_count() < _ALL_WEEKDAYS
    return restricted and not (day.starred or weekday.starred)
