"""Cron expressions: the text, checked and taken apart."""

import re
from functools import lru_cache

import msgspec

from gnomon.cron.days import months_with
from gnomon.cron.fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    Field,
    Kind,
    drawn,
    parse_field,
)
from gnomon.model.errors import InvalidSchedule

MOST_CHARACTERS = 255

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_KINDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_FIVE = " ".join(kind.name for kind in _KINDS)
_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S*)\s*(?P<rest>.*)", re.IGNORECASE)
_CADENCE = re.compile(r"\*(/\d+)?|H/\d+")


class CronExpression(msgspec.Struct, frozen=True):
    """An expression that can fire."""

    text: str  # as it was given
    has_seconds: bool
    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    times: int  # a bit for each minute of the day, the lowest for 00:00

    @property
    def elapsed(self) -> bool:
        """Whether it means a cadence, and not times of the day: then it follows real time."""
        fields = (self.hour, self.minute)
        return any(_CADENCE.fullmatch(field.text) is not None for field in fields)


@lru_cache(maxsize=4096)
def parse(text: str, seed: str | None = "") -> CronExpression:
    """Read `text`; `H` in it is drawn from `seed`. With None it is all values that a seed could
    give: what does not fire then fires for nobody."""
    words = _words(text)
    has_seconds = len(words) == 6
    if not has_seconds:
        words.insert(0, "0")
    second, minute, hour, weekday = (
        parse_field(kind, words[place], None if seed is None else drawn(kind.name, seed))
        for kind, place in ((SECOND, 0), (MINUTE, 1), (HOUR, 2), (WEEKDAY, 5))
    )
    found = _dates(words[3], words[4], weekday, seed)
    if found is None:
        raise InvalidSchedule(
            f"{text!r} never fires: no month of {words[4]} has a day {words[3]}; "
            "write a day that exists, such as L for the last"
        )
    day, month = found
    times = sum(minute.mask << 60 * each for each in range(24) if hour.mask >> each & 1)
    return CronExpression(text, has_seconds, second, minute, hour, day, month, weekday, times)


def words_of(text: str) -> list[tuple[Kind, str]]:
    """The fields as they are written, in capitals; without a second where there is none."""
    words = _words(text)
    return list(zip((SECOND, *_KINDS)[-len(words) :], words, strict=True))


def _words(text: str) -> list[str]:
    _check_characters(text)
    words = _expand(text.strip(" \t")).upper().split()
    if len(words) == 7:
        raise InvalidSchedule(
            f"{text!r} has 7 fields, and a year is none of those known here; write the first six, "
            "and the years as start_date and end_date"
        )
    if len(words) not in (5, 6):
        raise InvalidSchedule(
            f"{text!r} has {_count(len(words))}; write five ({_FIVE}), or six with the second first"
        )
    return words


def _dates(day: str, month: str, weekday: Field, seed: str | None) -> tuple[Field, Field] | None:
    """The fields of day and month. Where `H` came to a date that no calendar has, one of those that
    there are is drawn instead: whether an expression can be used must not be a matter of chance."""
    if seed is None:
        drawn_dates = [(parse_field(DAY, day, None), parse_field(MONTH, month, None))]
    else:
        draws = ((DAY, day), (MONTH, month))
        first, second = (parse_field(k, word, drawn(k.name, seed)) for k, word in draws)
        if months_with(first, weekday) & second.mask:
            return first, second
        drawn_dates = [(d, m) for d in _all_of(DAY, day) for m in _all_of(MONTH, month)]
    months = {d: months_with(d, weekday) for d, _ in drawn_dates}
    possible = [(d, m) for d, m in drawn_dates if months[d] & m.mask]
    return possible[drawn("date", seed or "") % len(possible)] if possible else None


def _all_of(kind: Kind, word: str) -> list[Field]:
    """All that a field with `H` can come to."""
    fields = (parse_field(kind, word, draw) for draw in range(kind.last))
    return list({field.mask: field for field in fields}.values())


def _check_characters(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise InvalidSchedule(
            f"the expression has {len(text)} characters; write at most {MOST_CHARACTERS}"
        )
    for char in text:
        if not char.isascii() or (not char.isprintable() and char != "\t"):
            raise InvalidSchedule(
                f"the expression has the character {char!a}; "
                "write ASCII, with spaces or tabs between the fields"
            )


def _expand(text: str) -> str:
    if found := _ZONE.match(text):
        raise InvalidSchedule(
            f"the zone is no part of the expression; write timezone {found['zone']!r}, and "
            f"{found['rest']!r} as the expression"
        )
    if not text.startswith("@"):
        return text
    if expanded := _MACROS.get(text.lower()):
        return expanded
    known = ", ".join(_MACROS)
    word = text.lower().partition(" ")[0]
    if word == "@every":
        raise InvalidSchedule("@every is not cron; write a schedule with an interval in seconds")
    if word == "@reboot":
        raise InvalidSchedule(f"@reboot has no time to fire at; write one of {known}")
    raise InvalidSchedule(f"{text!r} is not known; write one of {known}")


def _count(parts: int) -> str:
    return {0: "no fields", 1: "1 field"}.get(parts, f"{parts} fields")
