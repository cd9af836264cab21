"""One field of a cron expression: from its text to its values.

What a field says is kept twice: as a bit mask, which is what the search for the next fire reads,
and as the items that were written, which is what a description reads.
"""

import hashlib
import re
from collections.abc import Iterable

import msgspec

from gnomon.model.errors import InvalidSchedule

_MONTHS = (
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
)  # fmt: skip
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_STAR = re.compile(r"\*(?:/(?P<step>\d+))?")
_HASH = re.compile(r"H(?:\((?P<first>\w+)-(?P<last>\w+)\))?(?:/(?P<step>\d+))?")
_PLAIN = re.compile(r"(?P<first>\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?")
_LAST_DAY = re.compile(r"L(?:-(?P<before>\d+))?(?P<weekday>W)?")
_NEAREST = re.compile(r"(?P<day>\d+)W")
_LAST_OF = re.compile(r"(?P<weekday>\w+)L")
_NTH_OF = re.compile(r"(?P<weekday>\w+)#(?P<nth>\d+)")
_UP_TO_LAST = re.compile(r"(?P<first>\d+)-L")
_LONE_HASH = re.compile(r"(?<![A-Z])H(?![A-Z])")


class Kind(msgspec.Struct, frozen=True):
    """The values that a field may have. `names` stand for those from `first` on."""

    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()
    wraps: int = 0  # the value that is written for `first` at the end of a range: 7 for Sunday
    hash_last: int = 0  # where `H` ends, if not at `last`


SECOND = Kind("second", 0, 59)
MINUTE = Kind("minute", 0, 59)
HOUR = Kind("hour", 0, 23)
# Every month has a 28th: a hashed day must not leave out some of them.
DAY = Kind("day-of-month", 1, 31, hash_last=28)
MONTH = Kind("month", 1, 12, _MONTHS)
WEEKDAY = Kind("day-of-week", 0, 6, _WEEKDAYS, wraps=7)


class Every(msgspec.Struct, frozen=True):
    """`*`, `*/n`, `?`."""

    step: int = 1


class Value(msgspec.Struct, frozen=True):
    """`a`, or what `H` came to."""

    value: int


class Range(msgspec.Struct, frozen=True):
    """`a-b`, `a-b/n`, `a/n`, or what `H/n` came to. Weekdays may end with 7, the Sunday."""

    first: int
    last: int
    step: int = 1


class LastDay(msgspec.Struct, frozen=True):
    """`L`, or `L-n`: so many days before the last of the month."""

    before: int = 0


class NearestWeekday(msgspec.Struct, frozen=True):
    """`nW`: Monday to Friday, nearest to that day, inside its month."""

    day: int


class LastWeekday(msgspec.Struct, frozen=True):
    """`LW`, or `L-nW`: Monday to Friday, nearest to so many days before the last of the month,
    inside of it."""

    before: int = 0


class LastOf(msgspec.Struct, frozen=True):
    """`5L`: the last Friday of the month."""

    weekday: int


class NthOf(msgspec.Struct, frozen=True):
    """`5#3`: the third Friday of the month."""

    weekday: int
    nth: int


# What depends on the month that it stands in.
Floating = LastDay | NearestWeekday | LastWeekday | LastOf | NthOf
Item = Every | Value | Range | Floating


class Field(msgspec.Struct, frozen=True):
    """A parsed field: `mask` has a bit for every value that does not depend on the month."""

    text: str
    items: tuple[Item, ...]
    mask: int
    floating: tuple[Floating, ...] = ()
    starred: bool = False  # it restricts nothing by intent: `*`, `*/2`, `?`


def drawn(what: str, seed: str) -> int:
    """The same for the same seed, and evenly spread over many."""
    digest = hashlib.blake2b(f"{what}\0{seed}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest())


def parse_field(kind: Kind, text: str, draw: int | None) -> Field:
    """`text` is in capitals; `draw` decides what `H` comes to. Without one, `H` is all that it may
    come to."""
    items = tuple(_item(kind, part, text, draw) for part in text.split(","))
    mask = 0
    for item in items:
        for value in _values(kind, item):
            mask |= 1 << _one(kind, value)
    floating = tuple(item for item in items if isinstance(item, Floating))
    return Field(text, items, mask, floating, starred=text.startswith(("*", "?")))


def _values(kind: Kind, item: Item) -> Iterable[int]:
    match item:
        case Every(step):
            return range(kind.first, kind.last + 1, step)
        case Value(value):
            return (value,)
        case Range(first, last, step):
            return range(first, last + 1, step)
        case _:
            return ()


def _item(kind: Kind, part: str, text: str, draw: int | None) -> Item:
    if not part:
        raise InvalidSchedule(f"{kind.name} {text!r} has an empty item; write {_example(kind)}")
    if part == "?":
        return _question_mark(kind, text)
    if found := _STAR.fullmatch(part):
        return Every(_step(kind, found["step"]))
    if found := _HASH.fullmatch(part):
        return _hashed(kind, found, draw)
    if _LONE_HASH.search(part):
        raise InvalidSchedule(
            f"{kind.name} {part!r}: H cannot stand there; "
            f"write H, H/n, H({kind.first}-{kind.last}) or H({kind.first}-{kind.last})/n"
        )
    if floating := _floating(kind, part):
        return floating
    _refuse_misplaced(kind, part)
    if found := _PLAIN.fullmatch(part):
        return _plain(kind, found)
    raise InvalidSchedule(f"{kind.name} {part!r} cannot be read; write {_example(kind)}")


def _question_mark(kind: Kind, text: str) -> Item:
    if kind not in (DAY, WEEKDAY):
        raise InvalidSchedule(
            f"? stands only for a day-of-month or day-of-week; write * as {kind.name}"
        )
    if text != "?":
        raise InvalidSchedule(f"? must stand alone, not in {text!r}; leave it out of the list")
    return Every()


def _hashed(kind: Kind, found: re.Match[str], draw: int | None) -> Item:
    first, last = kind.first, kind.hash_last or kind.last
    if found["first"]:
        first, last = _bounds(kind, found["first"], found["last"])
    width, step = last - first + 1, _step(kind, found["step"])
    if draw is None:
        return Range(first, last)
    if found["step"] is None:
        return Value(_one(kind, first + draw % width))
    return Range(first + draw % min(step, width), last, step)


def _plain(kind: Kind, found: re.Match[str]) -> Item:
    if found["last"]:
        return Range(*_bounds(kind, found["first"], found["last"]), _step(kind, found["step"]))
    value = _value(kind, found["first"])
    if found["step"] is None:
        return Value(_one(kind, value))
    return Range(value, max(value, kind.last), _step(kind, found["step"]))


def _floating(kind: Kind, part: str) -> Floating | None:
    if kind is DAY:
        return _floating_day(part)
    if kind is not WEEKDAY:
        return None
    if part in ("L", "LW"):
        raise InvalidSchedule(f"day-of-week {part} names no day; write 5L for the last Friday")
    if found := _LAST_OF.fullmatch(part):
        return LastOf(_one(kind, _value(kind, found["weekday"])))
    if found := _NTH_OF.fullmatch(part):
        if not 1 <= int(found["nth"]) <= 5:
            raise InvalidSchedule(f"day-of-week {part!r} never comes; write a week from #1 to #5")
        return NthOf(_one(kind, _value(kind, found["weekday"])), int(found["nth"]))
    return None


def _floating_day(part: str) -> Floating | None:
    if found := _LAST_DAY.fullmatch(part):
        before, weekday = int(found["before"] or 0), found["weekday"] or ""
        if before > 30:
            raise InvalidSchedule(
                f"day-of-month {part!r} is before every month; write L-1{weekday} to L-30{weekday}"
            )
        return LastWeekday(before) if weekday else LastDay(before)
    if found := _NEAREST.fullmatch(part):
        return NearestWeekday(_value(DAY, found["day"]))
    return None


def _refuse_misplaced(kind: Kind, part: str) -> None:
    """Raises InvalidSchedule for forms that are valid, but not in this field or list."""
    if kind is DAY and ("L" in part or "W" in part):
        if found := _UP_TO_LAST.fullmatch(part):
            raise InvalidSchedule(
                f"day-of-month {part!r}: a range cannot end with L; write {found['first']}-31, "
                "which leaves out the days that a month does not have"
            )
        raise InvalidSchedule(
            f"day-of-month {part!r}: a day that is found by L or W is one day, without a step or a "
            "range; write L, L-3, LW, L-3W or 15W alone or in a list, such as 1,15W,L"
        )
    if kind is WEEKDAY and ("L" in part or "#" in part):
        raise InvalidSchedule(
            f"day-of-week {part!r}: the last or n-th of a weekday is one day, without a step or a "
            "range; write 5L or 5#3 alone or in a list, such as 1#1,1#3,5L"
        )


def _bounds(kind: Kind, first: str, last: str) -> tuple[int, int]:
    low, high = _value(kind, first), _value(kind, last)
    # SUN ends a week as well as it begins one: SAT-SUN.
    if kind.wraps and last == kind.names[0] and low > high:
        high = kind.wraps
    if low > high:
        raise InvalidSchedule(
            f"{kind.name} {first}-{last} runs backwards; write {_forwards(kind, first, last)}"
        )
    return low, high


def _forwards(kind: Kind, first: str, last: str) -> str:
    """The same range as a list that does not pass the end."""
    named = first.isalpha()
    if kind.wraps:
        if _value(kind, first) == kind.wraps:
            return f"{kind.first}-{last}"
        end, start = (kind.names[0], kind.names[1]) if named else (str(kind.wraps), "1")
        if _value(kind, last) == kind.first:
            return f"{first}-{end}"
    elif named:
        end, start = kind.names[-1], kind.names[0]
    else:
        end, start = str(kind.last), str(kind.first)
    head = first if first == end else f"{first}-{end}"
    tail = last if last == start else f"{start}-{last}"
    return f"{head},{tail}"


def _value(kind: Kind, text: str) -> int:
    if text in kind.names:
        return kind.first + kind.names.index(text)
    if not text.isdecimal():
        raise InvalidSchedule(f"{kind.name} {text!r} is not known; write {_example(kind)}")
    highest = max(kind.last, kind.wraps)
    if not kind.first <= int(text) <= highest:
        raise InvalidSchedule(
            f"{kind.name} {text} is out of range; write {kind.first} to {highest}"
        )
    return int(text)


def _one(kind: Kind, value: int) -> int:
    """A single value by its first name: Sunday is 0, also where 7 was written."""
    return kind.first if kind.wraps and value == kind.wraps else value


def _step(kind: Kind, text: str | None) -> int:
    if text is None:
        return 1
    if int(text) == 0:
        raise InvalidSchedule(f"{kind.name} has a step of 0; write a step of 1 or more")
    return int(text)


def _example(kind: Kind) -> str:
    numbers = f"{kind.first} to {max(kind.last, kind.wraps)}"
    names = f", or {kind.names[0]} to {kind.names[-1]}" if kind.names else ""
    return f"{numbers}{names}, * for all, or lists, ranges and steps of these"
