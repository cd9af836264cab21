"""The local times that an expression matches, as seconds; clock changes are not known here."""

from datetime import date

from gnomon.cron.days import days_of_month, month_length
from gnomon.cron.expression import CronExpression

_DAY = 86400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
FIRST_YEAR, LAST_YEAR = 9, 9991  # a year more on either side than schedules answer for


class LocalTimes:
    """Searches both ways. The days of the month in hand are kept, as the next search is near."""

    __slots__ = ("_days", "_expression", "_first_second", "_last_second", "_month_end",
                 "_month_start", "_seconds", "_times")  # fmt: skip

    def __init__(self, expression: CronExpression) -> None:
        self._expression = expression
        self._times = expression.times
        self._seconds = expression.second.mask
        self._first_second = _lowest(self._times) * 60 + _lowest(self._seconds)
        self._last_second = _highest(self._times) * 60 + _highest(self._seconds)
        self._month_start = self._month_end = self._days = 0

    def from_(self, local: int) -> int | None:
        """The first match that is not before `local`."""
        day, second = divmod(local, _DAY)
        if self._has(day):
            minute, second = divmod(second, 60)
            later = self._times >> minute
            if later & 1 and (rest := self._seconds >> second):
                return local + _lowest(rest)
            later >>= 1
            if later:
                minute += 1 + _lowest(later)
                return day * _DAY + minute * 60 + _lowest(self._seconds)
        found = self._day_from(day + 1)
        return None if found is None else found * _DAY + self._first_second

    def until(self, local: int) -> int | None:
        """The last match that is not after `local`."""
        day, second = divmod(local, _DAY)
        if self._has(day):
            minute, second = divmod(second, 60)
            if self._times >> minute & 1 and (rest := self._seconds & ((2 << second) - 1)):
                return local - second + _highest(rest)
            if earlier := self._times & ((1 << minute) - 1):
                return day * _DAY + _highest(earlier) * 60 + _highest(self._seconds)
        found = self._day_until(day - 1)
        return None if found is None else found * _DAY + self._last_second

    def _has(self, day: int) -> bool:
        if not self._month_start <= day < self._month_end:
            self._turn_to(day)
        return self._days >> (day - self._month_start) & 1 == 1

    def _turn_to(self, day: int) -> None:
        of_month = date.fromordinal(day + _EPOCH_ORDINAL)
        self._open(of_month.year, of_month.month)

    def _open(self, year: int, month: int) -> None:
        first = date(year, month, 1).toordinal()
        length = month_length(year, month)
        expression = self._expression
        days = 0
        if expression.month.mask >> month & 1:
            # Ordinal 1 was a Monday, so the remainder is the weekday with Sunday as 0.
            days = days_of_month(expression.day, expression.weekday, first % 7, length)
        self._days = days
        self._month_start = first - _EPOCH_ORDINAL
        self._month_end = self._month_start + length

    def _day_from(self, day: int) -> int | None:
        if not self._month_start <= day < self._month_end:
            self._turn_to(day)
        rest = self._days >> (day - self._month_start)
        if rest:
            return day + _lowest(rest)
        begun = date.fromordinal(self._month_start + _EPOCH_ORDINAL)
        year, month = begun.year, begun.month
        while year <= LAST_YEAR:
            later = self._expression.month.mask >> (month + 1)
            if not later:
                year, month = year + 1, 0
                continue
            month += 1 + _lowest(later)
            self._open(year, month)
            if self._days:
                return self._month_start + _lowest(self._days)
        return None

    def _day_until(self, day: int) -> int | None:
        if not self._month_start <= day < self._month_end:
            self._turn_to(day)
        rest = self._days & ((2 << (day - self._month_start)) - 1)
        if rest:
            return self._month_start + _highest(rest)
        begun = date.fromordinal(self._month_start + _EPOCH_ORDINAL)
        year, month = begun.year, begun.month
        while year >= FIRST_YEAR:
            earlier = self._expression.month.mask & ((1 << month) - 1)
            if not earlier:
                year, month = year - 1, 13
                continue
            month = _highest(earlier)
            self._open(year, month)
            if self._days:
                return self._month_start + _highest(self._days)
        return None


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1
