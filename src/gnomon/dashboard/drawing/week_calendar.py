"""A job's next seven days, drawn: a row for each day, in the clocks of its zone.

However often a job fires, a quarter of an hour has one mark: the next one is looked for at its end.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup

from gnomon.cron.schedule import Schedule
from gnomon.cron.zones import EPOCH, change_between, offsets_at

DAYS = 7
_SLOT = timedelta(minutes=15)
_SECOND = timedelta(seconds=1)
_MINUTES = 1440
_HEIGHT = 24
_TOLD = 6  # times in the text of a day
_REACH = {0: (2, 22), 1: (2, 11), 2: (13, 22)}  # of a mark, from top to bottom, by its half


class CalendarMark(msgspec.Struct, frozen=True):
    """A quarter of an hour in which the job fires. Of a local time that comes twice, `half` says
    which: 1 or 2."""

    minute: float
    often: bool  # more than one fire
    half: int

    @property
    def clock(self) -> str:
        return _clock(int(self.minute))


class ClockChange(msgspec.Struct, frozen=True):
    """Minutes of a day that clocks leave out (a gap) or repeat (a fold)."""

    kind: str  # gap, fold
    begin: int
    end: int

    @property
    def words(self) -> str:
        if self.kind == "gap":
            return f"clocks go forward from {_clock(self.begin)} to {_clock(self.end)}"
        return f"clocks go back from {_clock(self.end)} to {_clock(self.begin)}"


class CalendarDay(msgspec.Struct, frozen=True):
    """A day with its marks, as it is drawn."""

    day: date
    marks: tuple[CalendarMark, ...]
    changes: tuple[ClockChange, ...]
    now: int | None  # the minute that it is, today

    @property
    def name(self) -> str:
        return f"{self.day:%a %d %b}"

    @property
    def words(self) -> str:
        """What the drawing shows."""
        if not self.marks:
            return "no fire"
        times = [each.clock + (" and on" if each.often else "") for each in self.marks]
        more = len(times) - _TOLD
        shown = ", ".join(times[:_TOLD])
        return f"{shown} and {more} more" if more > 0 else shown

    @property
    def svg(self) -> Markup:
        parts = [_grid(hour) for hour in (6, 12, 18)]
        parts += [
            Markup('<rect class="{}" x="{}" y="0" width="{}" height="{}"/>').format(
                each.kind, each.begin, each.end - each.begin, _HEIGHT
            )
            for each in self.changes
        ]
        parts += [_tick(each) for each in self.marks if not each.often]
        parts += [_band(*each) for each in _bands(self.marks)]
        if self.now is not None:
            parts.append(Markup('<path class="now" d="M{} 0V{}"/>').format(self.now, _HEIGHT))
        told = ", ".join([self.words, *(each.words for each in self.changes)])
        return Markup(
            '<svg class="day" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
            'aria-label="{}"><title>{}</title>{}</svg>'
        ).format(
            _MINUTES,
            _HEIGHT,
            f"{self.name}: {told}",
            f"{self.name}: {told}",
            Markup("").join(parts),
        )


def week_of(schedule: Schedule, now: datetime) -> tuple[CalendarDay, ...]:
    """Today and the days after it, with the fires of each, also those of today that are over."""
    zone = schedule.zone
    here = now.astimezone(zone)
    days = [here.date() + timedelta(days=each) for each in range(DAYS + 1)]
    begins = [_midnight(day, zone) for day in days]
    marks: dict[date, list[CalendarMark]] = {}
    for day, mark in _marks(schedule, begins[0], begins[-1]):
        marks.setdefault(day, []).append(mark)
    changes: dict[date, list[ClockChange]] = {}
    for day, change in _changes(zone, begins):
        changes.setdefault(day, []).append(change)
    return tuple(
        CalendarDay(
            day,
            tuple(marks.get(day, ())),
            tuple(changes.get(day, ())),
            here.hour * 60 + here.minute if day == here.date() else None,
        )
        for day in days[:-1]
    )


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _marks(
    schedule: Schedule, begin: datetime, end: datetime
) -> Iterator[tuple[date, CalendarMark]]:
    zone = schedule.zone
    at = schedule.next_after(begin - _SECOND)
    while at is not None and at < end:
        local = at.astimezone(zone)
        within = timedelta(minutes=local.minute % 15, seconds=local.second)
        boundary = at - within + _SLOT
        following = schedule.next_after(at)
        often = following is not None and following < boundary
        minute = local.hour * 60 + local.minute + local.second / 60
        yield local.date(), CalendarMark(minute, often, _half(local))
        at = schedule.next_after(boundary - _SECOND) if often else following


def _half(local: datetime) -> int:
    """Which of two, where the local time comes twice."""
    other = local.replace(fold=1 - local.fold)
    first = local.replace(fold=0).utcoffset()
    second = local.replace(fold=1).utcoffset()
    if local.utcoffset() == other.utcoffset() or first is None or second is None or first < second:
        return 0
    return 1 + local.fold


def _changes(zone: ZoneInfo, begins: list[datetime]) -> Iterator[tuple[date, ClockChange]]:
    moments = [(each - EPOCH) // _SECOND for each in begins]
    offsets = offsets_at(zone, [timedelta(0, each) for each in moments])
    for place, (before, after) in enumerate(pairwise(offsets)):
        if before == after:
            continue
        change = change_between(zone, moments[place], moments[place + 1], before)
        kind = "gap" if after > before else "fold"
        low, high = sorted((before, after))
        start = EPOCH + timedelta(0, change) + low
        begin = start.hour * 60 + start.minute
        length = (high - low) // timedelta(minutes=1)
        yield start.date(), ClockChange(kind, begin, min(begin + length, _MINUTES))


def _grid(hour: int) -> Markup:
    return Markup('<path class="grid" d="M{} 0V{}"/>').format(hour * 60, _HEIGHT)


def _tick(mark: CalendarMark) -> Markup:
    top, bottom = _REACH[mark.half]
    return Markup('<path class="fire" d="M{} {}V{}"/>').format(f"{mark.minute:g}", top, bottom)


def _bands(marks: tuple[CalendarMark, ...]) -> list[tuple[int, int, int]]:
    """Quarters of an hour with many fires that follow each other: half, first and last minute."""
    found: list[tuple[int, int, int]] = []
    for mark in marks:
        if not mark.often:
            continue
        begin = int(mark.minute) // 15 * 15
        if found and found[-1][0] == mark.half and found[-1][2] == begin:
            begin = found.pop()[1]
        found.append((mark.half, begin, int(mark.minute) // 15 * 15 + 15))
    return found


def _band(half: int, begin: int, end: int) -> Markup:
    top, bottom = _REACH[half]
    return Markup('<rect class="often" x="{}" y="{}" width="{}" height="{}"/>').format(
        begin, top, end - begin, bottom - top
    )


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
