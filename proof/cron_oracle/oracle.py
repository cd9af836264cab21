"""When an expression fires, found by walking: every real minute (or second), one after the other.

Each instant of a stretch of time is turned into the time on the wall. Wall times that come up twice
are a fold, those that are jumped over are a gap; nothing is known about transitions beyond that.
For sparse expressions there is a second oracle, which walks the days of the calendar instead.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property
from zoneinfo import ZoneInfo

from proof.cron_oracle.grammar import Reading

DAY = 86_400
GAPS = ("fire_after", "skip")
FOLDS = ("first", "second", "both")
# No fold is longer than this, so both passes of a fold that touches a window are walked.
FOLD_MARGIN = 26 * 3600
# Where nothing repeats for longer than this, less will do: walking by seconds takes long.
SECONDS_MARGIN = 3 * 3600
# Between these, zones are searched for transitions.
YEARS = (1880, 2120)
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Policy:
    gap: str = "fire_after"
    fold: str = "first"


DEFAULT = Policy()


class Window:
    """The walls of one zone from `start` (not included) to `end` (included), in epoch seconds."""

    def __init__(self, zone: ZoneInfo, start: int, end: int, unit: int) -> None:
        self.zone, self.start, self.end, self.unit = zone, start, end, unit
        self.passes: dict[int, list[int]] = {}
        self.missing: dict[int, int] = {}
        around = range(start - FOLD_MARGIN, end + FOLD_MARGIN, 3600)
        offsets = [wall(zone, instant) - instant for instant in around]
        short = unit == 1 and max(offsets) - min(offsets) <= SECONDS_MARGIN
        margin = SECONDS_MARGIN if short else FOLD_MARGIN
        self._walk((start - margin) // unit * unit, end + margin)

    def _walk(self, first: int, last: int) -> None:
        unit, before = self.unit, None
        for instant, wall in _walls(self.zone, first, last, unit):
            self.passes.setdefault(wall, []).append(instant)
            if before is not None and wall > before + unit:
                self.missing.update(dict.fromkeys(range(before + unit, wall, unit), instant))
            before = wall
        self.lowest, self.highest = min(self.passes), max(self.passes)

    @cached_property
    def shifts(self) -> bool:
        """Whether a clock is changed anywhere near."""
        return bool(self.missing) or any(len(times) > 1 for times in self.passes.values())

    def fires(self, reading: Reading, policy: Policy, elapsed: bool | None = None) -> list[int]:
        """Ascending; `elapsed` says otherwise than the reading, for the models of the peers."""
        real = reading.elapsed if elapsed is None else elapsed
        found: set[int] = set()
        for wall in self._matching(reading):
            times = self.passes.get(wall)
            if times is None:
                if not real and policy.gap == "fire_after" and wall in self.missing:
                    found.add(self.missing[wall])
            elif real or policy.fold == "both":
                found.update(times)
            else:
                found.add(times[0] if policy.fold == "first" else times[-1])
        return sorted(instant for instant in found if self.start < instant <= self.end)

    def _matching(self, reading: Reading) -> Iterator[int]:
        for day in range(self.lowest // DAY, self.highest // DAY + 1):
            if not reading.on(date.fromordinal(EPOCH_ORDINAL + day)):
                continue
            for hour in reading.hours:
                at = day * DAY + hour * 3600
                # A day of seconds is long; most of it is not in a short window.
                if at + 3600 <= self.lowest or at > self.highest:
                    continue
                for minute in reading.minutes:
                    for second in reading.seconds:
                        yield at + minute * 60 + second


def _walls(zone: ZoneInfo, first: int, last: int, unit: int) -> Iterator[tuple[int, int]]:
    """Each instant with what the clock on the wall says, as seconds since 1970 on that clock."""
    fromtimestamp = datetime.fromtimestamp
    for instant in range(first, last + 1, unit):
        at = fromtimestamp(instant, zone)
        days = at.toordinal() - EPOCH_ORDINAL
        yield instant, days * DAY + at.hour * 3600 + at.minute * 60 + at.second


def wall(zone: ZoneInfo, instant: int) -> int:
    return next(_walls(zone, instant, instant, 1))[1]


def whole_minutes(zone: ZoneInfo, start: int, end: int) -> bool:
    """Whether the offsets of a stretch are whole minutes, so that minutes are enough to walk."""
    step = 6 * 3600
    around = range(start - FOLD_MARGIN, end + FOLD_MARGIN + step, step)
    return all((wall(zone, instant) - instant) % 60 == 0 for instant in around)


def daily_fires(
    zone: ZoneInfo,
    reading: Reading,
    policy: Policy,
    start: int,
    end: int,
    elapsed: bool | None = None,
) -> list[int]:
    """The same by calendar days, for expressions which fire rarely and at few times of the day."""
    real = reading.elapsed if elapsed is None else elapsed
    found: set[int] = set()
    for day in matching_days(zone, reading, start, end):
        for hour in reading.hours:
            for minute in reading.minutes:
                for second in reading.seconds:
                    time = day * DAY + hour * 3600 + minute * 60 + second
                    found.update(_resolved(zone, time, real, policy))
    return sorted(instant for instant in found if start < instant <= end)


def matching_days(zone: ZoneInfo, reading: Reading, start: int, end: int) -> Iterator[int]:
    """Days since 1970 on which it may fire, from two before the start to two after the end."""
    day = date.fromordinal(EPOCH_ORDINAL + wall(zone, start) // DAY - 2)
    until = date.fromordinal(EPOCH_ORDINAL + wall(zone, end) // DAY + 2)
    while day <= until:
        if day.month not in reading.months:
            day = (day.replace(day=1) + timedelta(32)).replace(day=1)
            continue
        if reading.on(day):
            yield day.toordinal() - EPOCH_ORDINAL
        day += timedelta(1)


def _resolved(zone: ZoneInfo, time: int, elapsed: bool, policy: Policy) -> list[int]:
    """The instants at which a wall time fires: tried with every offset that is in force near it."""
    offsets = {wall(zone, time + hours * 3600) - time - hours * 3600 for hours in range(-26, 27, 4)}
    times = sorted(time - offset for offset in offsets if wall(zone, time - offset) == time)
    if times:
        if elapsed or policy.fold == "both":
            return times
        return times[:1] if policy.fold == "first" else times[-1:]
    if elapsed or policy.gap == "skip":
        return []
    instant = time - max(offsets)
    while wall(zone, instant) < time:
        instant += 60
    instant -= 59
    while wall(zone, instant) < time:
        instant += 1
    return [instant]


def possible(reading: Reading) -> bool:
    """Whether there is any day for it.

    The years from 2001 to 2028 begin on every day of the week, with and without a leap day: what
    has no day in them never has one.
    """
    return any(reading.on(day) for day in _days() if day.month in reading.months)


@cache
def _days() -> list[date]:
    """One year of each kind is enough."""
    kinds = {(date(y, 1, 1).weekday(), date(y, 12, 31).weekday()): y for y in range(2001, 2029)}
    years = {y: date(y, 1, 1) for y in kinds.values()}
    days = [first + timedelta(number) for first in years.values() for number in range(366)]
    return [day for day in days if day.year in years]


@cache
def transitions(name: str) -> list[int]:
    """The instants at which the offset of a zone changes: weeks are looked at, then halved.

    It only says where to look closely, so two that undo each other within a week may be missed.
    """
    zone = ZoneInfo(name)
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in YEARS)
    week = 7 * DAY

    def offset(instant: int) -> int:
        return wall(zone, instant) - instant

    def first_unlike(before: int, within: range) -> int:
        return within[bisect_right(within, 0, key=lambda at: offset(at) != before)]

    found: list[int] = []
    before = offset(start)
    for instant in range(start + week, end, week):
        now = offset(instant)
        if now != before:
            found.append(first_unlike(before, range(instant - week, instant + 1)))
            before = now
    return found
