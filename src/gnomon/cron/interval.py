"""Intervals: every so many seconds of real time, counted from an anchor."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from gnomon.cron.describe import describe_interval
from gnomon.cron.zones import EPOCH
from gnomon.model.errors import InvalidSchedule

LONGEST_INTERVAL = 10 * 365 * 86400

_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


class IntervalMoments:
    """The multiples of an interval. Moments are seconds since `epoch`, the anchor."""

    __slots__ = ("_phase", "_seconds", "epoch")

    def __init__(self, seconds: int, anchor: datetime, phase: str | None) -> None:
        self.epoch = anchor
        self._seconds = seconds
        self._phase = phase

    def after(self, moment: int, limit: int) -> int | None:
        at = (moment // self._seconds + 1) * self._seconds
        return at if at <= limit else None

    def before(self, moment: int, limit: int) -> int | None:
        at = (moment - 1) // self._seconds * self._seconds
        return at if at >= limit else None

    def note(self, previous: int, at: int) -> None:
        """Clock changes do nothing to real time."""

    def describe(self) -> str:
        return describe_interval(self._seconds, self._phase)


def whole_seconds(seconds: float) -> int:
    """`seconds`, if an interval can be so long."""
    if not 1 <= seconds <= LONGEST_INTERVAL or seconds != int(seconds):
        raise InvalidSchedule(
            f"an interval of {seconds} seconds is not possible; "
            f"write whole seconds from 1 to {LONGEST_INTERVAL} (10 years)"
        )
    return int(seconds)


def anchor(phase: str | None, zone: ZoneInfo) -> datetime:
    """The moment, in UTC, from which intervals are counted."""
    if phase is None:
        return EPOCH
    if found := _TIME_OF_DAY.fullmatch(phase):
        hour, minute, second = (int(part or 0) for part in found.groups())
        # Any fixed day will do: the interval then means the same however often it is read.
        return datetime(2000, 1, 1, hour, minute, second, tzinfo=zone).astimezone(UTC)
    moment = _moment(phase)
    if moment is None:
        raise InvalidSchedule(
            f"phase {phase[:100]!r} cannot be read; write a local time of day such as 09:07 or "
            "09:07:30, or a moment with its offset such as 2026-01-31T09:07:00+01:00"
        )
    return moment


def _moment(phase: str) -> datetime | None:
    if not _MOMENT.fullmatch(phase):
        return None
    try:
        return datetime.fromisoformat(phase.upper()).astimezone(UTC)
    except (ValueError, OverflowError):  # 30 February; the first hours of year 1 in the east
        return None
