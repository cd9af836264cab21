"""Schedules in plain English.

A description is drawn from the values that a field came to, not from how it was written: two
ways to write one schedule read alike, and `H` reads as the time that it stands for. Of the
syntax only one thing matters, whether a day field begins with `*`.
"""

from collections.abc import Iterable
from itertools import pairwise

from gnomon.cron.expression import CronExpression
from gnomon.cron.fields import (
    Field,
    Floating,
    LastDay,
    LastOf,
    LastWeekday,
    NearestWeekday,
    NthOf,
)

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = ("first", "second", "third", "fourth", "fifth")
_FEW = 4  # so many values are named one by one, even where they follow a rule
_MOST_COUNTED = 120  # 90 minutes, but not 1441 minutes

_Values = list[int]  # ascending, each once


def describe_cron(expression: CronExpression) -> str:
    """When the expression fires, as a sentence without a full stop."""
    seconds, minutes, hours = map(_values, (expression.second, expression.minute, expression.hour))
    dates = _dates(expression)
    if cadence := _cadence(seconds, minutes, hours):
        return cadence + dates
    if len(hours) < 24 and not _names_days(expression):
        dates = " every day" + dates
    return _time(seconds, minutes, hours) + dates


def describe_interval(seconds: int, phase: str | None) -> str:
    """An interval of elapsed time: a day of it is 24 hours, whatever the clocks do."""
    return f"Every {_span(seconds)}" + (f", from {phase}" if phase else "")


def _span(seconds: int) -> str:
    if seconds % 86400 == 0 and seconds > 86400:
        return f"{seconds // 86400} days ({seconds // 3600} hours)"
    for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % size == 0 and (unit == "hour" or seconds // size <= _MOST_COUNTED):
            return _every(seconds // size, unit)
    counts = ((seconds // 3600, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second"))
    return _join(_count(count, unit) for count, unit in counts if count)


def _cadence(seconds: _Values, minutes: _Values, hours: _Values) -> str | None:
    """The times as one steady beat from midnight to midnight, if they are."""
    if seconds != [0]:
        values, unit, goes_on = seconds, "second", len(minutes) == 60 and len(hours) == 24
    elif minutes != [0]:
        values, unit, goes_on = minutes, "minute", len(hours) == 24
    else:
        values, unit, goes_on = hours, "hour", True
    step = _cycle(values, 24 if unit == "hour" else 60)
    return f"Every {_every(step, unit)}" if goes_on and step and values[0] == 0 else None


def _time(seconds: _Values, minutes: _Values, hours: _Values) -> str:
    if len(minutes) == 60 and len(hours) == 24:
        return _past("second", seconds, "every minute")
    if len(seconds) == 1 and (text := _clock_times(seconds[0], minutes, hours)):
        return text
    beat = _cycle(seconds, 60)
    if beat and len(minutes) == 60 and _is_run(hours):
        first, last = f"{hours[0]:02}:00:{seconds[0]:02}", f"{hours[-1]:02}:59:{seconds[-1]:02}"
        return f"Every {_every(beat, 'second')} from {first} to {last}"
    text = (
        _cadence([0], minutes, hours)
        or _clock_times(0, minutes, hours)
        or _past("minute", minutes, _each_hour(hours))
    )
    if seconds == [0]:
        return text
    if beat and seconds[0] == 0:
        return f"Every {_every(beat, 'second')} of the minute, {_lowered(text)}"
    return f"{_past('second', seconds, 'the minute')}, {_lowered(text)}"


def _clock_times(second: int, minutes: _Values, hours: _Values) -> str | None:
    """As times of a clock, where that is the shortest way to say it."""
    times = [_clock(hour, minute, second) for hour in hours for minute in minutes]
    if len(times) <= _FEW:
        return f"At {_join(times)}"
    if len(minutes) == 1:
        if len(hours) == 24:
            counts = ((minutes[0], "minute"), (second, "second"))
            parts = [_count(count, unit) for count, unit in counts if count]
            return f"At {_join(parts)} past every hour"
        if step := _step(hours):
            return f"Every {_every(step, 'hour')} from {times[0]} to {times[-1]}"
        return f"At {_join(times)}"
    step = _cycle(minutes, 60) if _is_run(hours) else None
    if len(hours) == 1:
        step = _step(minutes)
    # Around the clock, "from 00:03 to 23:58" would sound like a pause at midnight.
    if step and len(hours) < 24:
        return f"Every {_every(step, 'minute')} from {times[0]} to {times[-1]}"
    return None


def _past(unit: str, values: _Values, whole: str) -> str:
    step = _step(values)
    if step and len(values) > (2 if step == 1 else _FEW):
        return f"Every {_every(step, unit)} from {values[0]} to {values[-1]} past {whole}"
    named = _join(
        str(first) if first == last else f"{first} to {last}" for first, last in _runs(values)
    )
    return f"At {named} {unit if values == [1] else unit + 's'} past {whole}"


def _each_hour(hours: _Values) -> str:
    if len(hours) == 24:
        return "every hour"
    step = _step(hours)
    if step and len(hours) > (2 if step == 1 else _FEW):
        each = "each hour" if step == 1 else f"every {_ordinal(step)} hour"
        return f"{each} from {_clock(hours[0])} to {_clock(hours[-1])}"
    return _join(_clock(hour) for hour in hours)


def _clock(hour: int, minute: int = 0, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _names_days(expression: CronExpression) -> bool:
    """Whether some days are left out: Vixie's rule, see `days_of_month`."""
    restricted = [
        not _is_whole(expression.day, 31),
        not _is_whole(expression.weekday, 7),
    ]
    either = not (expression.day.starred or expression.weekday.starred)
    return all(restricted) if either else any(restricted)


def _dates(expression: CronExpression) -> str:
    day, weekday, months = expression.day, expression.weekday, _values(expression.month)
    if not _names_days(expression):
        return _in_months(months)
    if _is_whole(day, 31):
        return _on_weekdays(weekday, months)
    if _is_whole(weekday, 7):
        return _on_days(day, months)
    season = _in_months(months)
    season = f",{season}" if season else ""
    if day.starred or weekday.starred:
        days, weekdays = _join(_day_nouns(day)), _join(_weekday_nouns(weekday, "a "), "or")
        return f" on {days} of the month if it is {weekdays}{_of_month(weekday)}{season}"
    days, weekdays = _join(_day_nouns(day), "or"), _join(_weekday_nouns(weekday), "or")
    return f" on {days} of the month or on {weekdays}{_of_month(weekday)}{season}"


def _on_weekdays(weekday: Field, months: _Values) -> str:
    nouns = _weekday_nouns(weekday)
    if weekday.floating:
        if len(months) == 1:
            return f" on {_join(nouns)} of {_MONTHS[months[0] - 1]}"
        return f" on {_join(nouns)} of the month{_in_months(months)}"
    season = _in_months(months)
    if any(" to " in noun for noun in nouns):
        return f", {_join(nouns)}" + (f",{season}" if season else "")
    return f" on {_join(nouns)}{season}"


def _on_days(day: Field, months: _Values) -> str:
    nouns = _day_nouns(day)
    if len(months) == 1:
        return f" on {_join(nouns)} of {_MONTHS[months[0] - 1]}"
    if len(months) < 12:
        return f" on {_join(nouns)} of the month{_in_months(months)}"
    some = " that has one" if len(nouns) == 1 and _may_be_missing(day) else ""
    return f" on {_join(nouns)} of every month{some}"


def _may_be_missing(day: Field) -> bool:
    match day.floating:
        case (NearestWeekday(wanted),):
            return wanted > 28
        case (LastDay(before) | LastWeekday(before),):
            return before >= 28
        case ():
            return _values(day)[0] > 28
        case _:
            return False


def _of_month(weekday: Field) -> str:
    return " of the month" if weekday.floating else ""


def _in_months(months: _Values) -> str:
    if len(months) == 12:
        return ""
    nouns = [
        _MONTHS[first - 1] if first == last else f"{_MONTHS[first - 1]} to {_MONTHS[last - 1]}"
        for first, last in _runs(months)
    ]
    is_one_run = len(nouns) == 1 < len(months)
    return f" from {nouns[0]}" if is_one_run else f" in {_join(nouns)}"


def _day_nouns(day: Field) -> list[str]:
    values = _values(day)
    floating = [_floating_noun(item) for item in dict.fromkeys(day.floating)]
    step = _step(values)
    if step and step > 1 and len(values) > _FEW:
        first, last = _ordinal(values[0]), _ordinal(values[-1])
        # Last, since what came after it would seem to be a part of it.
        return [*floating, f"every {_ordinal(step)} day from the {first} to the {last}"]
    plain = [
        f"the {_ordinal(first)}" + (f" to the {_ordinal(last)}" if first != last else "")
        for first, last in _runs(values)
    ]
    return plain + floating


def _weekday_nouns(weekday: Field, article: str = "") -> list[str]:
    nouns = []
    for first, last in _weekday_runs(_values(weekday)):
        if first == last:
            nouns.append(f"{article}{_WEEKDAYS[first]}")
        else:
            span = f"{_WEEKDAYS[first]} to {_WEEKDAYS[last]}"
            nouns.append(f"a day from {span}" if article else span)
    return nouns + [_floating_noun(item) for item in dict.fromkeys(weekday.floating)]


def _weekday_runs(weekdays: _Values) -> list[tuple[int, int]]:
    """The week begins on Monday, unless all the days follow one another across its end."""
    count = len(weekdays)
    for first in weekdays:
        if count > 2 and all((first + ahead) % 7 in weekdays for ahead in range(count)):
            return [(first, (first + count - 1) % 7)]
    from_monday = sorted((day - 1) % 7 for day in weekdays)
    return [((first + 1) % 7, (last + 1) % 7) for first, last in _runs(from_monday)]


def _floating_noun(item: Floating) -> str:
    match item:
        case LastDay(0):
            return "the last day"
        case LastDay(before):
            return f"the {_ordinal(before)} day before the last day"
        case LastWeekday(0):
            return "the last weekday"
        case LastWeekday(before):
            return f"the weekday nearest the {_ordinal(before)} day before the last day"
        case NearestWeekday(day):
            return f"the weekday nearest the {_ordinal(day)}"
        case LastOf(weekday):
            return f"the last {_WEEKDAYS[weekday]}"
        case NthOf(weekday, nth):
            return f"the {_NTH[nth - 1]} {_WEEKDAYS[weekday]}"


def _values(field: Field) -> list[int]:
    return [value for value in range(60) if field.mask >> value & 1]


def _is_whole(field: Field, size: int) -> bool:
    return field.mask.bit_count() == size


def _step(values: _Values) -> int | None:
    """The distance between each value and the next, if it is the same everywhere."""
    steps = {after - before for before, after in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _cycle(values: _Values, size: int) -> int | None:
    """The same, if it is kept from one hour, minute or day to the next, `size` values later."""
    step = _step(values)
    return step if step and step * len(values) == size else None


def _is_run(values: _Values) -> bool:
    return values[-1] - values[0] == len(values) - 1


def _runs(values: _Values) -> list[tuple[int, int]]:
    """First and last of each three or more in a row; any other value by itself."""
    runs: list[tuple[int, int]] = []
    start = 0
    for end in range(1, len(values) + 1):
        if end < len(values) and values[end] == values[end - 1] + 1:
            continue
        row = values[start:end]
        runs += [(row[0], row[-1])] if len(row) > 2 else [(each, each) for each in row]
        start = end
    return runs


def _join(words: Iterable[str], conjunction: str = "and") -> str:
    *most, last = words
    return f"{', '.join(most)} {conjunction} {last}" if most else last


def _every(count: int, unit: str) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def _count(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(0 if number in (11, 12, 13) else number % 10, "th")
    return f"{number}{ending}"


def _lowered(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
