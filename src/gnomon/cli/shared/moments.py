"""Moments as people type them: "tomorrow 09:00", "in 10 minutes", "monday 8:30". Pure.

One text means one moment, or it is refused: a time that has passed today, one that clocks skip or
show twice, and words that people understand differently ("next monday").
"""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

UNDERSTOOD = (
    "2030-01-31T09:00:00Z, '2030-01-31 09:00', 'today 17:30', 'tomorrow 09:00', 'monday 8:30', "
    "'9:00', '9pm', 'in 10 minutes', 'in 1h30m', or now"
)
LONGEST = timedelta(days=200 * 366)

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_NAMED = {name: _SECONDS[unit] for unit, names in _UNITS.items() for name in names}
_SPAN = re.compile(r"(?:\d{1,9}(?:\.\d{1,6})?\s*[a-z]+\s*(?:,|and\b)?\s*)+", re.ASCII)
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?\s*(am|pm)?", re.ASCII)
_NOON = 12


class LocalZone(tzinfo):
    """The time zone of this machine, with the changes of its clocks."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is None:
            return None
        return moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, _moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


def parsed(text: str, now: datetime, zone: tzinfo) -> datetime:
    """The moment, in UTC, that the text means in this zone. Raises ValueError, which says what
    would be understood."""
    words = " ".join(text.strip().lower().split())
    if words == "now":
        return now.astimezone(UTC)
    if words.startswith("in "):
        return _later(words.removeprefix("in "), text, now)
    named = _named_day(words, text, now, zone)
    return named if named is not None else _written_out(text.strip(), zone)


def _later(words: str, text: str, now: datetime) -> datetime:
    parts = _PART.findall(words) if _SPAN.fullmatch(words) else []
    if not parts or any(unit not in _NAMED for _, unit in parts):
        raise ValueError(f"{text!r} is not a time from now, like 'in 10 minutes' or 'in 1h30m'")
    seconds = sum(float(count) * _NAMED[unit] for count, unit in parts)
    if seconds > LONGEST.total_seconds():
        raise ValueError(f"{text!r} is more than 200 years away")
    return (now + timedelta(seconds=seconds)).astimezone(UTC)


def _named_day(words: str, text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """The moment on a day that is named, or the next at a time alone; None where it is neither."""
    first, _, rest = words.partition(" ")
    local = now.astimezone(zone)
    if first == "next":
        raise ValueError(f"{text!r} can mean two days; say which, like 'monday 8:30' or a date")
    if first not in ("today", "tomorrow", *_DAYS):
        clock = _clock(words, text)
        return None if clock is None else _next_at(clock, local, now, zone, step=1)
    clock = _clock(rest.removeprefix("at "), text)
    if clock is None:
        raise ValueError(f"{text!r} needs a time of day, like '{first} 09:00'")
    if first in ("today", "tomorrow"):
        day = local.date() + timedelta(days=first == "tomorrow")
        moment = _moment(day, clock, zone, text)
        if moment <= now:
            raise ValueError(f"{text!r} has passed; say 'tomorrow {clock:%H:%M}', or now")
        return moment
    days = (_DAYS.index(first) - local.weekday()) % 7
    return _next_at(clock, local + timedelta(days=days), now, zone, step=7)


def _next_at(clock: time, local: datetime, now: datetime, zone: tzinfo, *, step: int) -> datetime:
    """The first such time on this day, or `step` days later, that has not passed."""
    text = f"{clock:%H:%M}"
    moment = _moment(local.date(), clock, zone, text)
    if moment > now:
        return moment
    return _moment(local.date() + timedelta(days=step), clock, zone, text)


def _clock(words: str, text: str) -> time | None:
    """A time of day; None where the words are none."""
    found = _CLOCK.fullmatch(words)
    if found is None or (found[2] is None and found[4] is None):
        return None
    hour, half = int(found[1]), found[4]
    if half is not None:
        if not 1 <= hour < _NOON:
            raise ValueError(f"{text!r}: with am and pm the hour is 1 to 11; else say 00:00, 12:00")
        hour += _NOON if half == "pm" else 0
    try:
        return time(hour, int(found[2] or 0), int(found[3] or 0))
    except ValueError:
        raise ValueError(f"{text!r} has no time of day between 00:00 and 23:59") from None


def _written_out(text: str, zone: tzinfo) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            return _moment(found.date(), found.time(), zone, text)
        return found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is too far away") from None
    except ValueError as error:
        if "clocks" in str(error):
            raise
        raise ValueError(f"{text!r} is not a time like {UNDERSTOOD}") from None


def _moment(day: date, clock: time, zone: tzinfo, text: str) -> datetime:
    """The moment at which clocks of the zone show this. ValueError where they skip or repeat it."""
    first = datetime.combine(day, clock, zone)
    shown = first.astimezone(UTC)
    if first.utcoffset() != first.replace(fold=1).utcoffset():
        if shown.astimezone(zone).replace(tzinfo=None) != first.replace(tzinfo=None):
            raise ValueError(f"{text!r} does not come: clocks skip it on {day}; say another time")
        raise ValueError(
            f"{text!r} comes twice: clocks are put back on {day}; add an offset, like "
            f"{first.isoformat(timespec='minutes')}"
        )
    return shown
