"""The oracle's own reading of a cron expression: plain sets of numbers, and predicates on dates.

It is written from the description of the grammar, on purpose in another way than the engine, and
shares no code with it.
"""

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = ("second", "minute", "hour", "day", "month", "weekday")
RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 6),
}

# The oracle cannot know the hash: who asks tells what `H...` stands for in a field.
Hashed = Callable[[str, str], frozenset[int]]
# A rule about dates, with its name, by which the models of the peers find and bend it.
Rule = tuple[str, int, int]


@dataclass(frozen=True)
class Reading:
    """An expression, read."""

    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    days: frozenset[Rule]
    weekdays: frozenset[Rule]
    free_day: bool
    """The day of the month begins with a star, or is `?`: both day fields must match."""
    free_weekday: bool
    elapsed: bool
    has_seconds: bool

    @cached_property
    def special(self) -> frozenset[Rule]:
        """The rules that are no plain numbers."""
        both = self.days | self.weekdays
        return frozenset(rule for rule in both if rule[0] not in ("day", "weekday"))

    def on(self, day: date) -> bool:
        """Whether it may fire on this calendar day."""
        if day.month not in self.months:
            return False
        by_day = ("day", day.day, 0) in self.days
        by_weekday = ("weekday", day.isoweekday() % 7, 0) in self.weekdays
        if self.special:
            last = calendar.monthrange(day.year, day.month)[1]
            by_day |= any(rule_holds(rule, day, last) for rule in self.days & self.special)
            by_weekday |= any(rule_holds(rule, day, last) for rule in self.weekdays & self.special)
        if self.free_day or self.free_weekday:
            return by_day and by_weekday
        return by_day or by_weekday


def rule_holds(rule: Rule, day: date, last: int) -> bool:
    """A rule that is no plain number: its kind and one or two numbers; `last` day of the month."""
    kind, a, b = rule
    sunday_first = day.isoweekday() % 7
    match kind:
        case "before-last":
            return day.day == last - a
        case "nearest":
            return a <= last and day.day == _nearest_workday(day.year, day.month, a)
        case "nearest-or-last":  # no rule of ours, but one of a peer's
            return day.day == _nearest_workday(day.year, day.month, min(a, last))
        case "last-workday":
            return day.day == _nearest_workday(day.year, day.month, last)
        case "workday-before-last":
            return a < last and day.day == _nearest_workday(day.year, day.month, last - a)
        case "last-weekday":
            return sunday_first == a and day.day + 7 > last
        case "nth-weekday":
            return sunday_first == a and (day.day - 1) // 7 == b - 1
    raise AssertionError(kind)


def _nearest_workday(year: int, month: int, wanted: int) -> int:
    """By looking around: the same day, one before, one after, two after, two before."""
    last = calendar.monthrange(year, month)[1]
    for step in (0, -1, 1, 2, -2):
        day = wanted + step
        if 1 <= day <= last and date(year, month, day).isoweekday() <= 5:
            return day
    raise AssertionError("five days in a row without a workday")


def no_hash(field: str, item: str) -> frozenset[int]:
    raise ValueError(f"what is {item} in the {field}?")


def read(text: str, hashed: Hashed = no_hash) -> Reading:
    """Reads what the engine should accept; ValueError for what it should not."""
    words = re.split(r"[ \t]+", MACROS.get(text.strip(" \t").lower(), text).strip(" \t"))
    if len(words) not in (5, 6):
        raise ValueError(f"{len(words)} fields")
    has_seconds = len(words) == 6
    second, minute, hour, day, month, weekday = words if has_seconds else ["0", *words]
    words = [word.upper() for word in (second, minute, hour, day, month, weekday)]
    return Reading(
        text=text,
        seconds=_values("second", words[0], hashed),
        minutes=_values("minute", words[1], hashed),
        hours=_values("hour", words[2], hashed),
        months=_values("month", words[4], hashed),
        days=_rules("day", words[3], hashed),
        weekdays=_rules("weekday", words[5], hashed),
        free_day=words[3][0] in "*?",
        free_weekday=words[5][0] in "*?",
        elapsed=any(re.fullmatch(r"\*|\*/\d+|H/\d+", word) for word in words[1:3]),
        has_seconds=has_seconds,
    )


def _values(field: str, word: str, hashed: Hashed) -> frozenset[int]:
    found: set[int] = set()
    for item in word.split(","):
        found |= _item(field, item, hashed)
    return frozenset(found)


def _item(field: str, item: str, hashed: Hashed) -> frozenset[int]:
    if re.fullmatch(r"H(\(\d+-\d+\))?(/\d+)?", item):
        return hashed(field, item)
    if not re.fullmatch(r"(\*|\w+(-\w+)?)(/0*[1-9]\d*)?", item, re.ASCII):
        raise ValueError(f"{item} in the {field}")
    low, high = RANGES[field]
    body, _, step = item.partition("/")
    if body == "*":
        first, last = low, high
    elif "-" in body:
        left, right = body.split("-")
        first, last = _number(field, left), _number(field, right)
        if field == "weekday" and right == "SUN" and first:
            last = 7  # a week may end on Sunday: FRI-SUN is 5-7
    else:
        first = _number(field, body)
        last = max(first, high) if step else first
    high += field == "weekday"  # Sunday is 7 as well
    if not low <= first <= last <= high:
        raise ValueError(f"{item} in the {field}")
    picked = range(first, last + 1, int(step or 1))
    return frozenset(value % 7 if field == "weekday" else value for value in picked)


def _number(field: str, word: str) -> int:
    if field == "month" and word in MONTHS:
        return MONTHS.index(word) + 1
    if field == "weekday" and word in DAYS:
        return DAYS.index(word)
    return int(word)


def _rules(field: str, word: str, hashed: Hashed) -> frozenset[Rule]:
    found: set[Rule] = set()
    for item in word.split(","):
        if word == "?":
            item = "*"
        rule = _day_rule(item) if field == "day" else _weekday_rule(item)
        if rule is not None:
            found.add(rule)
        else:
            found |= {(field, value, 0) for value in _item(field, item, hashed)}
    return frozenset(found)


def _day_rule(item: str) -> Rule | None:
    if item == "LW":
        return ("last-workday", 0, 0)
    if item == "L":
        return ("before-last", 0, 0)
    if item.startswith("L-") and item.endswith("W"):
        return ("workday-before-last", _within(item[2:-1], 0, 30), 0)
    if item.startswith("L-"):
        return ("before-last", _within(item[2:], 0, 30), 0)
    if item.endswith("W"):
        return ("nearest", _within(item[:-1], 1, 31), 0)
    return None


def _weekday_rule(item: str) -> Rule | None:
    day, number_sign, nth = item.partition("#")
    if number_sign:
        return ("nth-weekday", _weekday(day), _within(nth, 1, 5))
    if item.endswith("L"):
        return ("last-weekday", _weekday(item[:-1]), 0)
    return None


def _weekday(word: str) -> int:
    return DAYS.index(word) if word in DAYS else _within(word, 0, 7) % 7


def _within(word: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]+", word) or not low <= int(word) <= high:
        raise ValueError(f"{word} is not from {low} to {high}")
    return int(word)
