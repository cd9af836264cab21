"""Lengths of time as people write them: `90`, `"90s"`, `"1h30m"`, `"3 days"` or a timedelta."""

import math
import re
from datetime import timedelta

Duration = float | str | timedelta

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 200 * 366 * 86400.0
_WORDS = r"seconds?|minutes?|hours?|days?"
_PART = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*(ms|{_WORDS}|s|m|h|d|)")


def seconds_of(duration: Duration) -> float:
    """Its seconds. Raises ValueError, with what would be right."""
    if isinstance(duration, str):
        return parse_duration(duration)
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = float(duration)
    else:
        # One error for whatever was written; that it is of another type is no other mistake.
        raise ValueError(  # noqa: TRY004
            f'{duration!r} is not a duration: give seconds, "1h30m" or a timedelta'
        )
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{duration!r} is not a duration: it must be 0 or more")
    if seconds > _LONGEST:
        raise ValueError(f"{duration!r} is longer than 200 years")
    return seconds


def parse_duration(text: str) -> float:
    """Seconds in `90`, `90s`, `1.5m`, `2h`, `3 days` or `1h30m`. Raises ValueError."""
    text = text.strip()
    parts = list(_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(f"{text!r} is not a duration like 90, 90s, 5m, 2h or 1d")
    if len(parts) > 1 and not all(part[2] for part in parts):
        raise ValueError(f"{text!r} needs a unit after each number, like 1h30m")
    seconds = sum(float(part[1]) * _UNITS[_letter(part[2])] for part in parts)
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is longer than 200 years")
    return seconds


def _letter(unit: str) -> str:
    """A unit as it is written in one letter, `ms` excepted."""
    return unit if unit == "ms" else unit[:1]
