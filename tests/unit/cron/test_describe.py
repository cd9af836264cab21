"""What a schedule reads like, and that no two schedules read alike."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gnomon.cron.days import days_of_month, month_length
from gnomon.cron.describe import describe_cron, describe_interval
from gnomon.cron.expression import CronExpression, parse
from gnomon.model.errors import InvalidSchedule


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("*/30 * * * *", "Every 30 minutes"),
        ("7/15 * * * *", "At 7, 22, 37 and 52 minutes past every hour"),
        ("3/5 * * * *", "Every 5 minutes from 3 to 58 past every hour"),
        ("*/7 * * * *", "Every 7 minutes from 0 to 56 past every hour"),
        ("10-20 * * * *", "Every minute from 10 to 20 past every hour"),
        ("5,40 * * * *", "At 5 and 40 minutes past every hour"),
        ("0-10,30,45 * * * *", "At 0 to 10, 30 and 45 minutes past every hour"),
        ("0 * * * *", "Every hour"),
        ("17 * * * *", "At 17 minutes past every hour"),
        ("30 2 * * *", "At 02:30 every day"),
        ("0 9 * * MON-FRI", "At 09:00, Monday to Friday"),
        ("0 9,17 * * *", "At 09:00 and 17:00 every day"),
        ("0,30 9,17 * * *", "At 09:00, 09:30, 17:00 and 17:30 every day"),
        ("0 */6 * * *", "Every 6 hours"),
        ("15 */6 * * *", "At 00:15, 06:15, 12:15 and 18:15 every day"),
        ("0 */12 * * *", "Every 12 hours"),
        ("15 */12 * * *", "At 00:15 and 12:15 every day"),
        ("0 9-17 * * *", "Every hour from 09:00 to 17:00 every day"),
        ("0 9-17 * * 1-5", "Every hour from 09:00 to 17:00, Monday to Friday"),
        ("*/15 9-17 * * MON-FRI", "Every 15 minutes from 09:00 to 17:45, Monday to Friday"),
        ("*/15 9 * * *", "At 09:00, 09:15, 09:30 and 09:45 every day"),
        ("*/10 9 * * *", "Every 10 minutes from 09:00 to 09:50 every day"),
        ("* 9 * * *", "Every minute from 09:00 to 09:59 every day"),
        ("*/15 9,12,18 * * *", "At 0, 15, 30 and 45 minutes past 09:00, 12:00 and 18:00 every day"),
        (
            "* */2 * * *",
            "Every minute from 0 to 59 past every 2nd hour from 00:00 to 22:00 every day",
        ),
        (
            "5,20,40 9-17 * * *",
            "At 5, 20 and 40 minutes past each hour from 09:00 to 17:00 every day",
        ),
        (
            "5,20,40 9-11 * * *",
            "At 5, 20 and 40 minutes past each hour from 09:00 to 11:00 every day",
        ),
        (
            "5,20,40 */2 * * *",
            "At 5, 20 and 40 minutes past every 2nd hour from 00:00 to 22:00 every day",
        ),
        ("5,20,40 9,13,22 * * *", "At 5, 20 and 40 minutes past 09:00, 13:00 and 22:00 every day"),
        ("0 0,1,5,9,13,22 * * *", "At 00:00, 01:00, 05:00, 09:00, 13:00 and 22:00 every day"),
        ("0 */5 * * *", "Every 5 hours from 00:00 to 20:00 every day"),
        ("0 9 15W * *", "At 09:00 on the weekday nearest the 15th of every month"),
        ("0 0 L * *", "At 00:00 on the last day of every month"),
        ("0 0 LW * *", "At 00:00 on the last weekday of every month"),
        ("0 0 L-0W * *", "At 00:00 on the last weekday of every month"),
        (
            "0 0 L-3W * *",
            "At 00:00 on the weekday nearest the 3rd day before the last day of every month",
        ),
        (
            "0 0 L-28W * *",
            (
                "At 00:00 on the weekday nearest the 28th day before the last day of every month "
                "that has one"
            ),
        ),
        ("0 0 L-3 * *", "At 00:00 on the 3rd day before the last day of every month"),
        ("0 18 * * 5L", "At 18:00 on the last Friday of the month"),
        ("0 18 * * FRI#3", "At 18:00 on the third Friday of the month"),
        ("0 0 1 * *", "At 00:00 on the 1st of every month"),
        ("0 0 1,15 * *", "At 00:00 on the 1st and the 15th of every month"),
        ("0 0 1-7 * *", "At 00:00 on the 1st to the 7th of every month"),
        ("0 0 */2 * *", "At 00:00 on every 2nd day from the 1st to the 31st of every month"),
        ("0 0 */10 * *", "At 00:00 on the 1st, the 11th, the 21st and the 31st of every month"),
        ("0 0 31 * *", "At 00:00 on the 31st of every month that has one"),
        ("0 0 31W * *", "At 00:00 on the weekday nearest the 31st of every month that has one"),
        ("0 0 29 2 *", "At 00:00 on the 29th of February"),
        ("0 0 1 1 *", "At 00:00 on the 1st of January"),
        ("0 0 1 JAN,MAR *", "At 00:00 on the 1st of the month in January and March"),
        ("0 0 1 6-8 *", "At 00:00 on the 1st of the month from June to August"),
        ("0 0 * 1,3 *", "At 00:00 every day in January and March"),
        ("0 0 * 1 MON", "At 00:00 on Monday in January"),
        ("0 9 * 6-8 MON-FRI", "At 09:00, Monday to Friday, from June to August"),
        ("0 0 1 * MON", "At 00:00 on the 1st of the month or on Monday"),
        (
            "0 0 1,15 3 MON,WED",
            "At 00:00 on the 1st or the 15th of the month or on Monday or Wednesday, in March",
        ),
        ("0 0 1 * MON-FRI", "At 00:00 on the 1st of the month or on Monday to Friday"),
        (
            "0 0 */2 * MON",
            "At 00:00 on every 2nd day from the 1st to the 31st of the month if it is a Monday",
        ),
        (
            "0 0 1-7 * */2",
            (
                "At 00:00 on the 1st to the 7th of the month if it is a Tuesday, a "
                "Thursday, a Saturday or a Sunday"
            ),
        ),
        ("0 0 13 * */5", "At 00:00 on the 13th of the month if it is a Friday or a Sunday"),
        (
            "0 0 */2 * 1-5",
            (
                "At 00:00 on every 2nd day from the 1st to the 31st of the month if it "
                "is a day from Monday to Friday"
            ),
        ),
        (
            "0 0 */2 1,3 5L",
            (
                "At 00:00 on every 2nd day from the 1st to the 31st of the month if it "
                "is the last Friday of the month, in January and March"
            ),
        ),
        (
            "0 0 1,L * FRI#1,MON",
            (
                "At 00:00 on the 1st or the last day of the month or on Monday or the "
                "first Friday of the month"
            ),
        ),
        ("0 0 1-31 * MON", "At 00:00 every day"),
        ("0 0 ? * MON", "At 00:00 on Monday"),
        ("0 0 * * SUN-THU", "At 00:00, Sunday to Thursday"),
        ("0 0 * * FRI-SUN", "At 00:00, Friday to Sunday"),
        ("0 0 * * SAT,SUN", "At 00:00 on Saturday and Sunday"),
        ("0 0 * * 1-3,6", "At 00:00, Monday to Wednesday and Saturday"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("* * * * * *", "Every second"),
        ("30 * * * * *", "At 30 seconds past every minute"),
        ("1 * * * * *", "At 1 second past every minute"),
        ("5,40 * * * * *", "At 5 and 40 seconds past every minute"),
        ("*/7 * * * * *", "Every 7 seconds from 0 to 56 past every minute"),
        ("30 0 9 * * *", "At 09:00:30 every day"),
        ("*/10 0 9 * * *", "Every 10 seconds of the minute, at 09:00 every day"),
        ("*/10 */5 * * * *", "Every 10 seconds of the minute, every 5 minutes"),
        ("30 */5 * * * *", "At 30 seconds past the minute, every 5 minutes"),
        ("30 0 * * * *", "At 30 seconds past every hour"),
        ("30 17 * * * *", "At 17 minutes and 30 seconds past every hour"),
        ("*/10 * 9-17 * * MON", "Every 10 seconds from 09:00:00 to 17:59:50 on Monday"),
        (
            "5,40 * 9-17 * * *",
            "At 5 and 40 seconds past the minute, every minute from 09:00 to 17:59 every day",
        ),
        ("30 * 9 * * *", "Every minute from 09:00:30 to 09:59:30 every day"),
        ("3/10 * 9 * * *", "Every 10 seconds from 09:00:03 to 09:59:53 every day"),
        ("30 0 */2 * * *", "Every 2 hours from 00:00:30 to 22:00:30 every day"),
        ("@yearly", "At 00:00 on the 1st of January"),
        ("@weekly", "At 00:00 on Sunday"),
        ("@hourly", "Every hour"),
        (
            "0 0 1 1,3,6-8 *",
            "At 00:00 on the 1st of the month in January, March and June to August",
        ),
        ("*/5 * * * 1", "Every 5 minutes on Monday"),
        ("*/5 * * 1 *", "Every 5 minutes in January"),
        (
            "0 0 1 1 MON#5",
            "At 00:00 on the 1st of the month or on the fifth Monday of the month, in January",
        ),
        (
            "0 0 */2,L * *",
            "At 00:00 on the last day and every 2nd day from the 1st to the 31st of every month",
        ),
        ("0 0 1 2-11 *", "At 00:00 on the 1st of the month from February to November"),
        (
            "0 0 L-30 * *",
            "At 00:00 on the 30th day before the last day of every month that has one",
        ),
    ],
)
def test_how_an_expression_reads(text: str, sentence: str) -> None:
    assert describe_cron(parse(text)) == sentence


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("*/5 * * * *", "0-59/5 * * * *"),
        ("0 9 * * MON-FRI", "0 0 9 ? JAN-DEC 5,4,3,2,1"),
        ("0 0 * * SUN", "0 0 * * 7"),
        ("0 0 1 1 *", "@annually"),
        ("0 0 * * *", "0 0 1-31 * 0-6"),
        ("0 0,6,12,18 * * *", "0 */6 * * *"),
        ("0 0 L,L * *", "0 0 L * *"),
    ],
)
def test_one_schedule_reads_the_same_however_it_is_written(one: str, other: str) -> None:
    assert describe_cron(parse(one)) == describe_cron(parse(other))


def test_a_hashed_time_is_told_as_it_came_out() -> None:
    hourly = parse("H * * * *", "a job")
    minute = hourly.minute.mask.bit_length() - 1
    assert describe_cron(hourly) == f"At {minute} minutes past every hour"
    daily = parse("H(1-59) H(0-5) * * *", "a job")
    assert re.fullmatch(r"At 0[0-5]:[0-5][0-9] every day", describe_cron(daily))


@pytest.mark.parametrize(
    ("seconds", "phase", "sentence"),
    [
        (1, None, "Every second"),
        (45, None, "Every 45 seconds"),
        (60, None, "Every minute"),
        (90, None, "Every 90 seconds"),
        (900, "09:07", "Every 15 minutes, from 09:07"),
        (3600, None, "Every hour"),
        (5400, "2026-01-01T00:00:00Z", "Every 90 minutes, from 2026-01-01T00:00:00Z"),
        (129_600, None, "Every 36 hours"),
        (86_400, "09:00:30", "Every 24 hours, from 09:00:30"),
        (604_800, None, "Every 7 days (168 hours)"),
        (3661, None, "Every 1 hour, 1 minute and 1 second"),
        (86_460, None, "Every 24 hours and 1 minute"),
    ],
)
def test_how_an_interval_reads(seconds: int, phase: str | None, sentence: str) -> None:
    assert describe_interval(seconds, phase) == sentence


@given(st.integers(1, 315_360_000))
def test_an_interval_can_be_read_back(seconds: int) -> None:
    sizes = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
    sentence = describe_interval(seconds, None).partition(" (")[0]
    found = re.findall(r"(\d+ )?(second|minute|hour|day)s?", sentence)
    assert sum(int(count or 1) * sizes[unit] for count, unit in found) == seconds


def fields(first: int, last: int, *special: str) -> st.SearchStrategy[str]:
    values = st.integers(first, last)
    spans = st.tuples(values, values).map(sorted)
    item = st.one_of(
        st.just("*"),
        values.map(str),
        st.integers(1, last).map("*/{}".format),
        spans.map(lambda span: "{}-{}".format(*span)),
        st.tuples(spans, st.integers(1, 12)).map(lambda it: "{}-{}/{}".format(*it[0], it[1])),
        st.sampled_from(["H", "H/7", *special]),
    )
    return st.just("*") | values.map(str) | st.lists(item, min_size=1, max_size=3).map(",".join)


FIELDS = (
    fields(0, 59),
    fields(0, 59),
    fields(0, 23),
    fields(1, 31, "L", "LW", "L-1", "L-30", "L-1W", "L-30W", "1W", "15W", "31W"),
    fields(1, 12),
    fields(0, 7, "1L", "5L", "FRI#3", "MON#1", "0#5", "SAT-SUN"),
)
expressions = st.tuples(*FIELDS).map(list)


def parsed(parts: list[str]) -> CronExpression:
    try:
        return parse(" ".join(parts), "a job")
    except InvalidSchedule:
        assume(False)
        raise


def fire_set(expression: CronExpression) -> object:
    """All that decides when it fires; within 400 years every month begins on every weekday."""
    days = {
        (month, length, weekday): days_of_month(expression.day, expression.weekday, weekday, length)
        for month in range(1, 13)
        if expression.month.mask >> month & 1
        for length in {month_length(2000, month), month_length(2001, month)}
        for weekday in range(7)
    }
    return expression.second.mask, expression.times, {k: v for k, v in days.items() if v}


@given(expressions)
def test_everything_that_can_be_parsed_is_one_tidy_line(parts: list[str]) -> None:
    sentence = describe_cron(parsed(parts))
    assert re.fullmatch(r"(At|Every)( [A-Za-z0-9:,]+)+", sentence)
    assert not sentence.endswith(",")


@given(expressions, st.integers(0, 5), st.data())
def test_expressions_that_differ_in_one_field_read_differently(
    parts: list[str], place: int, data: st.DataObject
) -> None:
    other = parts.copy()
    other[place] = data.draw(FIELDS[place])
    one, two = parsed(parts), parsed(other)
    if fire_set(one) != fire_set(two):
        assert describe_cron(one) != describe_cron(two)
