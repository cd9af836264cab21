"""Which days of a month an expression means."""

from gnomon.cron.fields import (
    Field,
    Floating,
    LastDay,
    LastOf,
    LastWeekday,
    NearestWeekday,
    NthOf,
)

_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# One bit in every seventh: times a pattern of seven bits, it repeats that for five weeks.
_WEEKS = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
_SATURDAY, _SUNDAY = 6, 0


def month_length(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month - 1]


def days_of_month(days: Field, weekdays: Field, first_weekday: int, length: int) -> int:
    """A bit for each day that matches, the lowest for the 1st.

    A month is known by the weekday of its 1st (Sunday is 0) and its length. The rule is that of
    Vixie cron: two restricted fields mean either, and a field that begins with `*` adds no days.
    """
    whole = (1 << length) - 1
    of_month = days.mask >> 1
    of_week = ((weekdays.mask | weekdays.mask << 7) >> first_weekday & 0x7F) * _WEEKS
    for item in days.floating:
        of_month |= _bit(item, first_weekday, length)
    for item in weekdays.floating:
        of_week |= _bit(item, first_weekday, length)
    either = not (days.starred or weekdays.starred)
    return (of_month | of_week if either else of_month & of_week) & whole


def months_with(days: Field, weekdays: Field) -> int:
    """A bit for each month that ever has a day that matches. Within 400 years every month begins
    on every weekday, and so does February of 29 days."""
    lengths = {
        length
        for length in (28, 29, 30, 31)
        if any(days_of_month(days, weekdays, first_weekday, length) for first_weekday in range(7))
    }
    return sum(
        1 << month
        for month in range(1, 13)
        if month_length(2000, month) in lengths or month_length(2001, month) in lengths
    )


def _bit(item: Floating, first_weekday: int, length: int) -> int:
    day = _day(item, first_weekday, length)
    return 1 << (day - 1) if 1 <= day <= length else 0


def _day(item: Floating, first_weekday: int, length: int) -> int:
    """The day of the month, which may be outside of it."""
    match item:
        case LastDay(before):
            return length - before
        case LastWeekday(before):
            day = length - before
            return _nearest(day, first_weekday, length) if day >= 1 else 0
        case NearestWeekday(day):
            return _nearest(day, first_weekday, length) if day <= length else 0
        case LastOf(weekday):
            return length - (first_weekday + length - 1 - weekday) % 7
        case NthOf(weekday, nth):
            return 1 + (weekday - first_weekday) % 7 + 7 * (nth - 1)


def _nearest(day: int, first_weekday: int, length: int) -> int:
    match (first_weekday + day - 1) % 7:
        case 6:
            return day - 1 if day > 1 else day + 2
        case 0:
            return day + 1 if day < length else day - 2
        case _:
            return day
