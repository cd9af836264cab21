"""What may be written in a cron expression, what it means, and what is said about the rest."""

from collections import Counter

import pytest

from gnomon.cron.days import months_with
from gnomon.cron.expression import MOST_CHARACTERS, CronExpression, parse
from gnomon.cron.fields import (
    Every,
    LastDay,
    LastOf,
    LastWeekday,
    NearestWeekday,
    NthOf,
    Range,
    Value,
    drawn,
)
from gnomon.cron.steps import check_steps
from gnomon.model.errors import InvalidSchedule


def values(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def minutes(text: str, seed: str = "") -> list[int]:
    return values(parse(f"{text} * * * *", seed).minute.mask)


def weekdays(text: str) -> list[int]:
    return values(parse(f"0 0 * * {text}").weekday.mask)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", [7]),
        ("07", [7]),
        ("5-8", [5, 6, 7, 8]),
        ("*/20", [0, 20, 40]),
        ("50/4", [50, 54, 58]),
        ("10-30/10", [10, 20, 30]),
        ("*/90", [0]),
        ("1,5,1", [1, 5]),
        ("1,10-12,*/30", [0, 1, 10, 11, 12, 30]),
    ],
)
def test_items_of_a_field(text: str, expected: list[int]) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", [0]),
        ("7", [0]),
        ("5", [5]),
        ("5-7", [0, 5, 6]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("sat-Sun", [0, 6]),
        ("SUN-TUE", [0, 1, 2]),
        ("MON-FRI/2", [1, 3, 5]),
        ("1/2", [1, 3, 5]),
        ("*/8", [0]),
        ("mon,WED", [1, 3]),
    ],
)
def test_weekdays(text: str, expected: list[int]) -> None:
    assert weekdays(text) == expected


def test_months_have_names() -> None:
    assert values(parse("0 0 1 jan,Jun-AUG,12 *").month.mask) == [1, 6, 7, 8, 12]


def test_a_sixth_field_in_front_holds_seconds() -> None:
    with_seconds = parse("*/30 5 * * * *")
    assert with_seconds.has_seconds
    assert values(with_seconds.second.mask) == [0, 30]
    without = parse("5 * * * *")
    assert not without.has_seconds
    assert values(without.second.mask) == [0]


def test_tabs_and_spaces_separate() -> None:
    spaced = parse("\t 1  2\t3 4\t 5 ")
    assert spaced.text == "\t 1  2\t3 4\t 5 "
    assert spaced.times == parse("1 2 3 4 5").times == 1 << (2 * 60 + 1)


@pytest.mark.parametrize(
    ("macro", "written"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@HOURLY", "0 * * * *"),
    ],
)
def test_macros(macro: str, written: str) -> None:
    def meaning(e: CronExpression) -> tuple[object, ...]:
        return (e.second, e.minute, e.hour, e.day, e.month, e.weekday, e.elapsed)

    assert meaning(parse(macro, "seed")) == meaning(parse(written))


def test_items_keep_what_was_written() -> None:
    e = parse("*/5 9 L,L-3,LW,L-3W,15W * FRIL,5#3,7#1,SAT-SUN")
    assert e.minute.items == (Every(5),)
    assert e.hour.items == (Value(9),)
    assert e.day.items == (
        LastDay(),
        LastDay(3),
        LastWeekday(),
        LastWeekday(3),
        NearestWeekday(15),
    )
    assert e.month.items == (Every(),)
    assert e.weekday.items == (LastOf(5), NthOf(5, 3), NthOf(0, 1), Range(6, 7))


@pytest.mark.parametrize(
    ("text", "elapsed"),
    [
        ("* * * * *", True),
        ("*/10 2 * * *", True),
        ("30 * * * *", True),
        ("30 */2 * * *", True),
        ("H/15 2 * * *", True),
        ("H H/3 * * *", True),
        ("H H * * *", False),
        ("30 2 * * *", False),
        ("*/10 30 2 * * *", False),
        ("0-59 0-23 * * *", False),
        ("0/10 2 * * *", False),
        ("0 2 * * *", False),
    ],
)
def test_a_cadence_in_hours_or_minutes_means_real_time(text: str, elapsed: bool) -> None:
    assert parse(text).elapsed is elapsed


def test_a_hash_stays_and_spreads() -> None:
    drawn = [minutes("H", f"job-{n}") for n in range(6000)]
    assert minutes("H", "job-7") == drawn[7]
    counts = [drawn.count([minute]) for minute in range(60)]
    assert sum(counts) == 6000
    assert min(counts) > 50
    assert max(counts) < 160


def test_hashes_of_different_fields_are_independent() -> None:
    both = [parse("H H * * *", f"job-{n}") for n in range(3000)]
    same = sum(e.hour.mask == e.minute.mask for e in both)
    assert 20 < same < 100  # one in 60


def test_hashes_keep_to_their_range() -> None:
    for n in range(300):
        seed = f"job-{n}"
        assert minutes("H(10-19)", seed)[0] in range(10, 20)
        (start, *rest) = minutes("H/15", seed)
        assert start < 15
        assert rest == [start + 15, start + 30, start + 45]
        in_range = minutes("H(30-49)/10", seed)
        assert in_range == [in_range[0], in_range[0] + 10]
        assert in_range[0] in range(30, 40)
        assert minutes("H(0-5)/10", seed)[0] in range(6)
        assert values(parse("0 0 H * *", seed).day.mask)[0] in range(1, 29)
        assert values(parse("0 0 * H *", seed).month.mask)[0] in range(1, 13)
        assert values(parse("0 0 * * H(FRI-SUN)", seed).weekday.mask)[0] in (5, 6, 0)


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("0 0 31 H *", 7),
        ("0 0 30 H *", 11),
        ("0 0 29 H *", 12),
        ("0 0 L-30 H *", 7),
        ("0 0 L-29W H *", 11),
        ("0 0 31W H *", 7),
        ("0 0 31 H(4-6) *", 1),
        ("0 0 31 H(4-6)/2 *", 1),
        ("0 0 H(28-31) 2 *", 2),
        ("0 0 H(29-31) 4 *", 2),
        ("0 0 H(29-31) H *", 12 + 11 + 7),
        ("0 0 31 2,H *", 7),
        ("0 0 31 H ?", 7),
        ("0 0 31 H */2", 7),
    ],
)
def test_a_hash_never_comes_to_a_date_that_does_not_exist(text: str, dates: int) -> None:
    """Whoever asks: each of the dates that there are is somebody's, and all about equally often."""
    found: Counter[tuple[int, int]] = Counter()
    for n in range(60 * dates):
        e = parse(text, f"job-{n}")
        days = values(e.day.mask) or [0]
        possible = [m for m in values(e.month.mask) if months_with(e.day, e.weekday) >> m & 1]
        assert possible, (text, n)
        found[days[0], possible[0]] += 1
        assert parse(text, f"job-{n}") == e
    assert len(found) == dates
    assert min(found.values()) > 20
    assert max(found.values()) < 120


def test_a_hash_that_came_to_a_date_that_exists_stays_there() -> None:
    """As before such dates were looked for: jobs keep their times."""
    for n in range(300):
        seed = f"job-{n}"
        month = 1 + drawn("month", seed) % 12
        day = 28 + drawn("day-of-month", seed) % 4
        if month in (1, 3, 5, 7, 8, 10, 12):
            assert values(parse("0 0 31 H *", seed).month.mask) == [month]
        if day <= 29:
            assert values(parse("0 0 H(28-31) 2 *", seed).day.mask) == [day]
    earlier = {"job-2": 8, "job-3": 5, "job-4": 12, "job-11": 1}
    assert {s: values(parse("0 0 31 H *", s).month.mask)[0] for s in earlier} == earlier
    assert values(parse("H H H H H", "job-1").minute.mask) == [51]


def test_without_a_seed_a_hash_is_all_that_it_may_be() -> None:
    e = parse("H H(2-4)/2 H H(6-7) H", None)
    assert values(e.minute.mask) == list(range(60))
    assert values(e.hour.mask) == [2, 3, 4]
    assert values(e.day.mask) == list(range(1, 29))
    assert values(e.month.mask) == [6, 7]
    assert values(e.weekday.mask) == list(range(7))
    with pytest.raises(InvalidSchedule, match="never fires"):
        parse("0 0 31 H(4-4) *", None)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("*/90 * * * *", "interval_seconds = 5400 instead, or a step of at most 60"),
        ("0/90 * * * *", "interval_seconds = 5400"),
        ("H/90 * * * *", "interval_seconds = 5400"),
        ("5,*/61 * * * *", "interval_seconds = 3660"),
        ("*/90 * * * * *", "interval_seconds = 90"),
        ("0 */36 * * *", "interval_seconds = 129600"),
        ("0 0 */45 * *", "interval_seconds = 3888000"),
        ("5-10/30 * * * *", "a step of at most 6"),
        ("5-10/7 * * * *", "a step of at most 6"),
        ("50/15 * * * *", "a step of at most 10"),
        ("59/2 * * * *", "write 59 alone"),
        ("H(0-5)/10 * * * *", "a step of at most 6"),
        ("0 0 1 */13 *", "a step of at most 12"),
        ("0 0 1 OCT-DEC/4 *", "a step of at most 3"),
        ("0 0 * * */8", "a step of at most 7"),
        ("0 0 * * SAT-SUN/3", "a step of at most 2"),
        ("0 0 * * 7/2", "write 7 alone"),
    ],
)
def test_a_step_that_reaches_nothing_is_refused_where_it_is_declared(text: str, right: str) -> None:
    parse(text)  # jobs that have it keep their times
    with pytest.raises(InvalidSchedule) as caught:
        check_steps(text)
    assert right in caught.value.detail
    assert "nothing after its first value" in caught.value.detail


@pytest.mark.parametrize(
    "text",
    [
        "*/60 */24 */31 */12 */7",
        "*/59 * * * *",
        "0/60 * * * *",
        "50/10 * * * *",
        "5-10/6 * * * *",
        "H/60 H/24 H/28 H/12 H/7",
        "H(0-5)/6 * * * *",
        "0 0 * * 1-7/7",
        "@hourly",
        "0 0 L,15W * 5L,5#3",
    ],
)
def test_other_steps_are_taken(text: str) -> None:
    check_steps(text)


def test_a_preview_without_a_job_hashes_nothing() -> None:
    assert minutes("H") == minutes("H", "") == minutes("h")


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("", "no fields", "write five"),
        ("5", "1 field;", "write five (minute hour day-of-month month day-of-week)"),
        ("0 0 * *", "4 fields", "or six with the second first"),
        ("0 0 0 1 1 * 2026", "7 fields", "start_date and end_date"),
        ("0 0 0 1 1 ? *", "7 fields", "write the first six"),
        ("0 0 0 0 0 0 0 0", "8 fields", "write five"),
        (
            "CRON_TZ=Europe/Berlin 0 9 * * *",
            "no part of the expression",
            "timezone 'Europe/Berlin'",
        ),
        ("tz=UTC 0 9 * * *", "no part of the expression", "'0 9 * * *' as the expression"),
        ("TZ=UTC @daily", "no part of the expression", "'@daily' as the expression"),
        ("60 * * * *", "minute 60 is out of range", "0 to 59"),
        ("* 24 * * *", "hour 24 is out of range", "0 to 23"),
        ("0 0 0 * *", "day-of-month 0 is out of range", "1 to 31"),
        ("0 0 * 13 *", "month 13 is out of range", "1 to 12"),
        ("0 0 * * 8", "day-of-week 8 is out of range", "0 to 7"),
        ("0 0 * JUNE *", "month 'JUNE' is not known", "JAN to DEC"),
        ("0 0 * * MONDAY", "day-of-week 'MONDAY' is not known", "SUN to SAT"),
        ("MON * * * *", "minute 'MON' is not known", "0 to 59"),
        ("50-10 * * * *", "50-10 runs backwards", "50-59,0-10"),
        ("0 22-0 * * *", "22-0 runs backwards", "22-23,0"),
        ("0 0 * NOV-FEB *", "NOV-FEB runs backwards", "NOV-DEC,JAN-FEB"),
        ("0 0 * * FRI-MON", "FRI-MON runs backwards", "FRI-SUN,MON"),
        ("0 0 * * 5-1", "5-1 runs backwards", "5-7,1"),
        ("0 0 * * 6-2", "6-2 runs backwards", "6-7,1-2"),
        ("0 0 * * 5-0", "5-0 runs backwards", "write 5-7"),
        ("0 0 * * 7-2", "7-2 runs backwards", "write 0-2"),
        ("*/0 * * * *", "minute has a step of 0", "1 or more"),
        ("H/0 * * * *", "minute has a step of 0", "1 or more"),
        ("1,,2 * * * *", "'1,,2' has an empty item", "0 to 59"),
        ("? * * * *", "? stands only for", "write * as minute"),
        ("0 0 ?,5 * *", "? must stand alone", "leave it out"),
        ("L * * * *", "minute 'L' is not known", "0 to 59"),
        ("0 0 L-31 * *", "'L-31' is before every month", "L-1 to L-30"),
        ("0 0 L-31W * *", "'L-31W' is before every month", "L-1W to L-30W"),
        ("0 0 32W * *", "32 is out of range", "1 to 31"),
        ("0 0 L/2 * *", "'L/2': a day that is found by L", "write L, L-3"),
        ("0 0 L-3/2 * *", "one day, without a step", "such as 1,15W,L"),
        ("0 0 15W/2 * *", "one day, without a step", "15W alone or in a list"),
        ("0 0 29-L * *", "a range cannot end with L", "write 29-31"),
        ("0 0 1,20-L * *", "a range cannot end with L", "write 20-31"),
        ("0 0 L-L * *", "without a step or a range", "L-3"),
        ("0 0 20-LW * *", "without a step or a range", "LW"),
        ("0 0 1-15W * *", "without a step or a range", "15W"),
        ("0 0 LW-3 * *", "without a step or a range", "L-3W"),
        ("0 0 W * *", "'W': a day that is found by L or W", "15W"),
        ("0 0 * * 5L/2", "'5L/2': the last or n-th", "5L or 5#3 alone"),
        ("0 0 * * 1-5#2", "without a step or a range", "1#1,1#3"),
        ("0 0 * * L5", "'L5'", "write 5L"),
        ("0 1-H * * *", "hour '1-H': H cannot stand there", "H(0-23)"),
        ("0 0 * * H#2", "day-of-week 'H#2': H cannot stand there", "H(0-6)"),
        ("H-5 * * * *", "minute 'H-5': H cannot stand there", "H(0-59)/n"),
        ("0 0 * * L", "day-of-week L names no day", "5L"),
        ("0 0 * * 5#6", "'5#6' never comes", "#1 to #5"),
        ("0 0 * * 5#0", "'5#0' never comes", "#1 to #5"),
        ("1.5 * * * *", "minute '1.5' cannot be read", "0 to 59"),
        ("-5 * * * *", "minute '-5' cannot be read", "0 to 59"),
        ("H(5) * * * *", "'H(5)': H cannot stand there", "H(0-59)"),
        ("@reboot", "@reboot has no time", "@daily"),
        ("@every 5m", "@every is not cron", "interval"),
        ("@fortnightly", "'@fortnightly' is not known", "@weekly"),
        ("0\n0 * * *", r"character '\n'", "spaces or tabs"),
        ("0 0\u00a0* * *", r"character '\xa0'", "ASCII"),
        ("\u0665 * * * *", r"character '\u0665'", "ASCII"),
        ("0 0 31 2 *", "never fires", "L for the last"),
        ("0 0 30 2 *", "never fires", "a day that exists"),
        ("0 0 31 4,6,9,11 ?", "never fires", "a day that exists"),
        ("0 0 L-30 4 *", "never fires", "a day that exists"),
        ("0 0 30W 2 *", "never fires", "a day that exists"),
        ("0 0 L-29W 2 *", "never fires", "a day that exists"),
        ("0 0 H(30-31) 2 *", "never fires: no month of 2 has a day H(30-31)", "a day that exists"),
        ("0 0 31 H(4-4) *", "never fires", "a day that exists"),
        ("0 0 LW H */7", "never fires", "a day that exists"),
    ],
)
def test_what_cannot_be_used_says_what_could(text: str, wrong: str, right: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse(text)
    assert wrong in caught.value.detail
    assert right in caught.value.detail
    assert caught.value.pointer == ""


@pytest.mark.parametrize(
    ("text", "right"),
    [("0 22-0 * * *", "22-23,0"), ("0 0 * * FRI-MON", "FRI-SUN,MON"), ("59-5 * * * *", "59,0-5")],
)
def test_a_range_of_one_is_written_as_one(text: str, right: str) -> None:
    with pytest.raises(InvalidSchedule, match=f"; write {right}$"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["0 0 29 2 *", "0 0 31 2 MON", "0 0 L-28 2 *", "0 0 * 2 5#5", "0 0 31 2,3 *"]
)
def test_rare_is_not_never(text: str) -> None:
    parse(text)


def test_length_is_bounded() -> None:
    fits = ",".join(["1"] * 123) + " * * * *"
    assert len(fits) <= MOST_CHARACTERS
    parse(fits)
    with pytest.raises(InvalidSchedule, match="at most 255"):
        parse(fits + " " * 255)
