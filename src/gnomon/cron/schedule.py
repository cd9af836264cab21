"""When a job fires: a cron expression or an interval, in a zone, between two dates."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

import msgspec

from gnomon.cron.dst import REAL_TIME, Dst, Fold, Gap
from gnomon.cron.expression import parse
from gnomon.cron.interval import IntervalMoments, anchor, whole_seconds
from gnomon.cron.moments import CronMoments
from gnomon.cron.zones import zone
from gnomon.model.errors import InvalidSchedule

__all__ = [
    "Dst",
    "Fire",
    "Fold",
    "Gap",
    "Schedule",
    "cron_schedule",
    "interval_schedule",
]

# A zone's offset must not carry a fire out of what a datetime can hold.
EARLIEST = datetime(10, 1, 1, tzinfo=UTC)
LATEST = datetime(9990, 12, 31, 23, 59, 59, tzinfo=UTC)

_SECOND = timedelta(seconds=1)
_DEFAULT_DST = Dst()


class Fire(msgspec.Struct, frozen=True):
    """One fire: in UTC, in local time, and with a note about clock changes."""

    at: datetime  # UTC
    local: datetime
    note: str | None = None  # what a clock change did to it


class Moments(Protocol):
    """Where a schedule's fires are, in whole seconds since `epoch`."""

    @property
    def epoch(self) -> datetime: ...

    def after(self, moment: int, limit: int) -> int | None:
        """The first fire later than `moment`, unless it is later than `limit`."""

    def before(self, moment: int, limit: int) -> int | None:
        """The last fire earlier than `moment`, unless it is earlier than `limit`."""

    def note(self, previous: int, at: int) -> str | None:
        """The effect of clock changes on the fire `at`, and on others since `previous`."""

    def describe(self) -> str: ...


class Schedule:
    """Fires, one after the other. It never changes; what it keeps only makes it fast."""

    __slots__ = ("_first", "_last", "_moments", "timezone")

    def __init__(
        self, moments: Moments, timezone: str, starts: datetime | None, ends: datetime | None
    ) -> None:
        _check_dates(starts, ends)
        self.timezone = timezone
        self._moments = moments
        epoch = moments.epoch
        self._first = -((epoch - (starts or EARLIEST)) // _SECOND)
        self._last = ((ends or LATEST) - epoch) // _SECOND
        self._first = max(self._first, -((epoch - EARLIEST) // _SECOND))
        self._last = min(self._last, (LATEST - epoch) // _SECOND)

    @property
    def zone(self) -> ZoneInfo:
        return zone(self.timezone)

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire that is later than `moment`, in UTC."""
        epoch = self._moments.epoch
        since = moment - epoch
        at = self._after(since.days * 86400 + since.seconds)
        return None if at is None else epoch + timedelta(0, at)

    def previous_before(self, moment: datetime) -> datetime | None:
        """The last fire that is earlier than `moment`, in UTC."""
        epoch = self._moments.epoch
        whole = -((epoch - moment) // _SECOND)
        if whole <= self._first:
            return None
        at = self._moments.before(min(whole, self._last + 1), self._first)
        return None if at is None else epoch + timedelta(0, at)

    def fires(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Every fire that is later than `after` and not later than `until`."""
        epoch = self._moments.epoch
        at = self._after((after - epoch) // _SECOND)
        last = (until - epoch) // _SECOND
        while at is not None and at <= last:
            yield epoch + timedelta(0, at)
            at = self._after(at)

    def preview(self, after: datetime, count: int) -> list[Fire]:
        """The next fires, with a word where a clock change has a hand in them."""
        epoch = self._moments.epoch
        previous = max((after - epoch) // _SECOND, self._first - 1)
        found: list[Fire] = []
        while len(found) < count and (at := self._after(previous)) is not None:
            moment = epoch + timedelta(0, at)
            note = self._moments.note(previous, at)
            found.append(Fire(moment, moment.astimezone(self.zone), note))
            previous = at
        return found

    def describe(self) -> str:
        """The schedule in plain English."""
        return f"{self._moments.describe()} ({self.timezone})"

    def _after(self, moment: int) -> int | None:
        if moment >= self._last:
            return None
        return self._moments.after(max(moment, self._first - 1), self._last)


def cron_schedule(
    expression: str,
    timezone: str = "UTC",
    dst: Dst = _DEFAULT_DST,
    seed: str | None = "",
    starts: datetime | None = None,
    ends: datetime | None = None,
) -> Schedule:
    """Fires where the local time of the zone matches the expression."""
    parsed = parse(expression, seed)
    zone(timezone)
    policy = REAL_TIME if parsed.elapsed else dst
    return Schedule(CronMoments(parsed, timezone, policy), timezone, starts, ends)


def interval_schedule(
    seconds: float,
    timezone: str = "UTC",
    phase: str | None = None,
    starts: datetime | None = None,
    ends: datetime | None = None,
) -> Schedule:
    """Fires every so many seconds, whatever clocks show; the zone is for `phase` and for people."""
    begin = anchor(phase, zone(timezone))
    return Schedule(IntervalMoments(whole_seconds(seconds), begin, phase), timezone, starts, ends)


def _check_dates(starts: datetime | None, ends: datetime | None) -> None:
    for name, moment in (("start", starts), ("end", ends)):
        if moment is not None and moment.utcoffset() is None:
            raise InvalidSchedule(
                f"the {name} {moment.isoformat()} has no offset; "
                f"write one, such as {moment.isoformat()}Z"
            )
    if starts is not None and ends is not None and ends < starts:
        raise InvalidSchedule(
            f"the end {ends.isoformat()} is before the start {starts.isoformat()}; "
            "write an end that is later"
        )
