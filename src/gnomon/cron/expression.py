"""Cron expressions: the text, checked and taken apart."""

import re
from functools import lru_cache

import msgspec

from gnomon.cron.days import can_ever_match
from gnomon.cron.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, Field, parse_field
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
        """It means a cadence, not times of the day: it follows real time where clocks change."""
        fields = (self.hour, self.minute)
        return any(_CADENCE.fullmatch(field.text) is not None for field in fields)


@lru_cache(maxsize=4096)
def parse(text: str, seed: str = "") -> CronExpression:
    """Read `text`; `H` in it is drawn from `seed`."""
    _check_characters(text)
    parts = _expand(text.strip(" \t")).upper().split()
    if len(parts) not in (5, 6):
        raise InvalidSchedule(
            f"{text!r} has {_count(len(parts))}; write five ({_FIVE}), or six with the second first"
        )
    has_seconds = len(parts) == 6
    second = parse_field(SECOND, parts.pop(0) if has_seconds else "0", seed)
    minute, hour, day, month, weekday = (
        parse_field(kind, part, seed) for kind, part in zip(_KINDS, parts, strict=True)
    )
    if not can_ever_match(day, weekday, month.mask):
        raise InvalidSchedule(
            f"{text!r} never fires: no month of {month.text} has a day {day.text}; "
            "write a day that exists, such as L for the last"
        )
    times = sum(minute.mask << 60 * each for each in range(24) if hour.mask >> each & 1)
    return CronExpression(text, has_seconds, second, minute, hour, day, month, weekday, times)


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
