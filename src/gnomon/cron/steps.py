"""Steps that reach nothing: `*/90` as minute is not every 90 minutes, but once an hour.

They are refused where a schedule is declared, not where it is read: a job that was declared while
they were taken keeps its times.
"""

import re

from gnomon.cron.expression import words_of
from gnomon.cron.fields import Kind, Range, parse_field
from gnomon.model.errors import InvalidSchedule

_STEP = re.compile(r"(?P<begin>[^/]+)/(?P<step>\d+)")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day-of-month": 86400}


def check_steps(expression: str) -> None:
    """Raises InvalidSchedule where a step is longer than the range that it goes through."""
    for kind, word in words_of(expression):
        for part in word.split(","):
            if found := _STEP.fullmatch(part):
                _check(kind, part, found["begin"], int(found["step"]))


def _check(kind: Kind, part: str, begin: str, step: int) -> None:
    first, last = _range(kind, begin)
    most = last - first + 1
    if step <= most:
        return
    right = f"a step of at most {most}"
    if step > kind.last - kind.first + 1 and kind.name in _SECONDS:
        seconds = step * _SECONDS[kind.name]
        right = f"a schedule with interval_seconds = {seconds} instead, or {right}"
    elif most == 1:
        right = f"{begin} alone"
    raise InvalidSchedule(
        f"{kind.name} {part!r} has a step of {step}, but goes from {first} to {last} only, so that "
        f"nothing after its first value would ever fire; write {right}"
    )


def _range(kind: Kind, begin: str) -> tuple[int, int]:
    (item,) = parse_field(kind, f"{begin}/1", None).items
    return (item.first, item.last) if isinstance(item, Range) else (kind.first, kind.last)
