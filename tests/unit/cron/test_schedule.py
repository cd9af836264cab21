"""When schedules fire: examples, at every kind of clock change. Next: test_cron_laws.py."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest

from gnomon.cron.schedule import Dst, Fold, Gap, Schedule, cron_schedule, interval_schedule
from gnomon.cron.zones import zone
from gnomon.model.errors import InvalidSchedule

NEW_YORK = "America/New_York"
SKIP = Dst(gap=Gap.SKIP)
TICK = timedelta(microseconds=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(schedule: Schedule, after: str, until: str) -> list[str]:
    """After the law that going back gives the same as going forth."""
    forth = list(schedule.fires(utc(after), utc(until)))
    back = []
    at = schedule.previous_before(utc(until) + TICK)
    while at is not None and at > utc(after):
        back.append(at)
        at = schedule.previous_before(at)
    assert back[::-1] == forth
    return [f"{at:%Y-%m-%dT%H:%M}" if at.second == 0 else f"{at:%Y-%m-%dT%H:%M:%S}" for at in forth]


def test_a_time_in_a_gap_fires_right_after_it_or_not_at_all() -> None:
    days = ("2026-03-07T12:00", "2026-03-09T12:00")
    moved = cron_schedule("30 2 * * *", NEW_YORK)
    assert fires(moved, *days) == ["2026-03-08T07:00", "2026-03-09T06:30"]
    skipped = cron_schedule("30 2 * * *", NEW_YORK, SKIP)
    assert fires(skipped, *days) == ["2026-03-09T06:30"]


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        (Fold.FIRST, ["2026-11-01T05:30"]),
        (Fold.SECOND, ["2026-11-01T06:30"]),
        (Fold.BOTH, ["2026-11-01T05:30", "2026-11-01T06:30"]),
    ],
)
@pytest.mark.parametrize("text", ["30 1 * * *", "30 1 1 11 *"])
def test_a_time_that_comes_twice(text: str, fold: Fold, expected: list[str]) -> None:
    schedule = cron_schedule(text, NEW_YORK, Dst(fold=fold))
    assert fires(schedule, "2026-11-01T00:00", "2026-11-02T00:00") == expected


def test_between_the_two_passes_of_a_fold() -> None:
    """From there, the times of the first pass lie behind, and those of the second ahead."""
    between = utc("2026-11-01T05:45")
    for fold, previous, following in [
        (Fold.FIRST, "2026-11-01T05:30", "2027-11-01T05:30"),
        (Fold.SECOND, "2025-11-01T05:30", "2026-11-01T06:30"),
        (Fold.BOTH, "2026-11-01T05:30", "2026-11-01T06:30"),
    ]:
        schedule = cron_schedule("30 1 1 11 *", NEW_YORK, Dst(fold=fold))
        assert schedule.previous_before(between) == utc(previous)
        assert schedule.next_after(between) == utc(following)


@pytest.mark.parametrize(
    ("text", "dst", "expected"),
    [
        ("0 2,3 * * *", Dst(), ["2026-03-08T07:00"]),
        ("0 2,3 * * *", SKIP, ["2026-03-08T07:00"]),
        ("10,20,40 2 * * *", Dst(), ["2026-03-08T07:00"]),
        ("10,20,40 2 * * *", SKIP, []),
        ("*/30 30 2 * * *", Dst(), ["2026-03-08T07:00"]),
        ("*/10 2 * * *", Dst(), []),
        ("*/30 1-3 * * *", SKIP, ["2026-03-08T06:00", "2026-03-08T06:30", "2026-03-08T07:00",
                                  "2026-03-08T07:30"]),
        ("0 */2 * * *", Dst(), ["2026-03-08T05:00", "2026-03-08T08:00", "2026-03-08T10:00"]),
    ],
)  # fmt: skip
def test_several_times_around_a_gap(text: str, dst: Dst, expected: list[str]) -> None:
    schedule = cron_schedule(text, NEW_YORK, dst)
    assert fires(schedule, "2026-03-08T04:59", "2026-03-08T10:59") == expected


def test_a_cadence_follows_real_time() -> None:
    """Whatever the policy: the gap is no longer than usual, and the second pass is not silent."""
    for text, step in [("*/10 * * * *", 10), ("0 * * * *", 60), ("H/15 * * * *", 15)]:
        for dst in (Dst(), SKIP, Dst(fold=Fold.SECOND)):
            schedule = cron_schedule(text, NEW_YORK, dst, seed="job")
            for day in ("2026-03-08", "2026-11-01"):
                begin = utc(day)
                found = list(schedule.fires(begin, begin + timedelta(days=1)))
                assert {b - a for a, b in pairwise(found)} == {timedelta(minutes=step)}


@pytest.mark.parametrize(
    ("name", "text", "dst", "span", "expected"),
    [
        # 2011-12-30 never was.
        ("Pacific/Apia", "0 12 * * *", Dst(), ("2011-12-29T00:00", "2012-01-01T00:00"),
         ["2011-12-29T22:00", "2011-12-30T10:00", "2011-12-30T22:00", "2011-12-31T22:00"]),
        ("Pacific/Apia", "0 12 * * *", SKIP, ("2011-12-29T00:00", "2012-01-01T00:00"),
         ["2011-12-29T22:00", "2011-12-30T22:00", "2011-12-31T22:00"]),
        ("Pacific/Apia", "0 0 30 12 *", SKIP, ("2010-12-31T00:00", "2012-12-31T00:00"),
         ["2012-12-29T10:00"]),
        # Midnight is in the gap.
        ("America/Havana", "0 0 * * *", Dst(), ("2026-03-07T12:00", "2026-03-09T12:00"),
         ["2026-03-08T05:00", "2026-03-09T04:00"]),
        ("America/Havana", "0 0 * * *", SKIP, ("2026-03-07T12:00", "2026-03-09T12:00"),
         ["2026-03-09T04:00"]),
        ("America/Santiago", "0 0 * * SUN", Dst(), ("2026-09-05T12:00", "2026-09-13T12:00"),
         ["2026-09-06T04:00", "2026-09-13T03:00"]),
        # The fold is on the day before the change.
        ("America/Santiago", "30 23 * * *", Dst(fold=Fold.BOTH),
         ("2026-04-04T12:00", "2026-04-06T02:00"), ["2026-04-05T02:30", "2026-04-05T03:30"]),
        ("America/Santiago", "0 0 5 4 *", Dst(), ("2026-04-04T12:00", "2026-04-06T02:00"),
         ["2026-04-05T04:00"]),
        ("America/Havana", "0,30 0 * * *", Dst(), ("2026-11-01T00:00", "2026-11-02T00:00"),
         ["2026-11-01T04:00", "2026-11-01T04:30"]),
        # Half an hour; two hours; at a quarter to three.
        ("Australia/Lord_Howe", "15 2 * * *", Dst(), ("2026-10-03T00:00", "2026-10-05T00:00"),
         ["2026-10-03T15:30", "2026-10-04T15:15"]),
        ("Australia/Lord_Howe", "45 1 * * *", Dst(fold=Fold.BOTH),
         ("2026-04-04T00:00", "2026-04-05T00:00"), ["2026-04-04T14:45", "2026-04-04T15:15"]),
        ("Antarctica/Troll", "30 1,2 * * *", Dst(), ("2026-03-29T00:00", "2026-03-29T12:00"),
         ["2026-03-29T01:00"]),
        ("Antarctica/Troll", "30 1 * * *", Dst(fold=Fold.BOTH),
         ("2026-10-24T12:00", "2026-10-25T12:00"), ["2026-10-24T23:30", "2026-10-25T01:30"]),
        ("Pacific/Chatham", "0 3 * * *", Dst(), ("2026-09-26T00:00", "2026-09-27T00:00"),
         ["2026-09-26T14:00"]),
        # Clocks go back for Ramadan.
        ("Africa/Casablanca", "30 2 * * *", Dst(), ("2026-02-14T12:00", "2026-02-16T12:00"),
         ["2026-02-15T01:30", "2026-02-16T02:30"]),
        # Local mean time, with seconds in the offset.
        ("Africa/Monrovia", "0 12 * * *", Dst(), ("1890-01-01T00:00", "1890-01-02T00:00"),
         ["1890-01-01T12:43:08"]),
    ],
)  # fmt: skip
def test_zones(name: str, text: str, dst: Dst, span: tuple[str, str], expected: list[str]) -> None:
    assert fires(cron_schedule(text, name, dst), *span) == expected


def local_days(text: str, after: str, count: int) -> list[str]:
    schedule = cron_schedule(text, NEW_YORK)
    return [f"{fire.local:%Y-%m-%d}" for fire in schedule.preview(utc(after), count)]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("L-3 * *", ["2026-01-28", "2026-02-25", "2026-03-28"]),
        ("L-29 * *", ["2026-01-02", "2026-03-02", "2026-04-01"]),
        ("15W * *", ["2026-01-15", "2026-02-16", "2026-03-16"]),  # Sundays in February, March
        ("1W 8 *", ["2026-08-03", "2027-08-02", "2028-08-01"]),  # a Saturday stays in its month
        ("31W * *", ["2026-01-30", "2026-03-31", "2026-05-29"]),  # a Sunday stays in its month
        ("LW * *", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("* * 5L", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("* * FRI#3", ["2026-01-16", "2026-02-20", "2026-03-20"]),
        ("* * 5#5", ["2026-01-30", "2026-05-29", "2026-07-31"]),
        ("13 * FRI", ["2026-01-02", "2026-01-09", "2026-01-13"]),  # two restrictions: either
        ("13 * */5", ["2026-02-13", "2026-03-13", "2026-09-13"]),  # a star: both
        ("*/2 * MON", ["2026-01-05", "2026-01-19", "2026-02-09"]),
        ("1 1 */8", ["2034-01-01", "2040-01-01", "2045-01-01"]),
        ("L,10 * 1#1", ["2026-01-05", "2026-01-10", "2026-01-31"]),
        ("29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29"]),
    ],
)
def test_days(days: str, expected: list[str]) -> None:
    assert local_days(f"0 12 {days}", "2026-01-01T00:00", 3) == expected


def test_leap_days_across_a_century_that_has_none() -> None:
    expected = ["2096-02-29T05:00", "2104-02-29T05:00"]
    schedule = cron_schedule("0 0 29 2 *", NEW_YORK)
    assert fires(schedule, "2095-01-01T00:00", "2105-01-01T00:00") == expected
    both = cron_schedule("0 0 29 2 */7")  # a leap day and a Sunday
    assert fires(both, "2080-01-01T00:00", "2130-01-01T00:00") == [
        "2088-02-29T00:00",
        "2128-02-29T00:00",
    ]


def test_dates_bound_it_inclusively() -> None:
    starts, ends = utc("2026-05-02T09:00"), utc("2026-05-04T09:00")
    schedule = cron_schedule("0 9 * * *", starts=starts, ends=ends)
    assert fires(schedule, "2020-01-01T00:00", "2030-01-01T00:00") == [
        "2026-05-02T09:00",
        "2026-05-03T09:00",
        "2026-05-04T09:00",
    ]
    inside = cron_schedule("0 9 * * *", starts=starts + TICK, ends=ends - TICK)
    assert fires(inside, "2020-01-01T00:00", "2030-01-01T00:00") == ["2026-05-03T09:00"]
    assert schedule.next_after(ends) is None
    assert schedule.previous_before(starts) is None


def test_dates_must_make_sense() -> None:
    early, late = utc("2026-05-02T09:00"), utc("2026-05-04T09:00")
    with pytest.raises(InvalidSchedule, match="before the start"):
        cron_schedule("0 9 * * *", starts=late, ends=early)
    with pytest.raises(InvalidSchedule, match="has no offset; write one"):
        cron_schedule("0 9 * * *", starts=early.replace(tzinfo=None))


def test_time_itself_is_bounded() -> None:
    for schedule in (cron_schedule("0 0 29 2 *", "Pacific/Kiritimati"), interval_schedule(7)):
        assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
        assert schedule.previous_before(datetime.min.replace(tzinfo=UTC)) is None
        first = schedule.next_after(datetime.min.replace(tzinfo=UTC))
        last = schedule.previous_before(datetime.max.replace(tzinfo=UTC))
        assert first is not None
        assert 10 <= first.year <= 13
        assert last is not None
        assert 9987 <= last.year <= 9990


def test_moments_may_have_any_offset() -> None:
    schedule = cron_schedule("30 1 * * *", NEW_YORK, Dst(fold=Fold.SECOND))
    first_pass = datetime(2026, 11, 1, 1, 30, tzinfo=zone(NEW_YORK))
    for moment in (first_pass, first_pass.astimezone(timezone(timedelta(hours=9)))):
        following = schedule.next_after(moment)
        assert following == utc("2026-11-01T06:30")
        assert following.tzinfo is UTC


@pytest.mark.parametrize(("dst", "fate"), [(Dst(), "fires right after"), (SKIP, "skipped")])
def test_a_preview_tells_of_gaps(dst: Dst, fate: str) -> None:
    schedule = cron_schedule("30 2 * * *", NEW_YORK, dst)
    notes = [fire.note for fire in schedule.preview(utc("2026-03-07T00:00"), 3)]
    gap = "2026-03-08: 02:30 does not exist, as clocks go from 02:00 to 03:00"
    assert notes == [None, f"{gap}; {fate}", None]


def test_a_preview_tells_of_folds() -> None:
    schedule = cron_schedule("30 1 * * *", NEW_YORK, Dst(fold=Fold.BOTH))
    found = schedule.preview(utc("2026-11-01T00:00"), 3)
    assert [fire.note for fire in found] == [
        "2026-11-01: 01:30 comes twice, this is the first; fires both times",
        "2026-11-01: 01:30 comes twice, this is the second; fires both times",
        None,
    ]
    assert [fire.local.isoformat() for fire in found[:2]] == [
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:30:00-05:00",
    ]


def test_a_preview_says_nothing_where_a_cadence_goes_on() -> None:
    hourly = cron_schedule("0 * * * *", NEW_YORK).preview(utc("2026-03-08T05:00"), 5)
    assert [fire.note for fire in hourly] == [None] * 5
    at_two = cron_schedule("*/10 2 * * *", NEW_YORK).preview(utc("2026-03-08T05:00"), 1)
    assert at_two[0].note is not None
    assert "02:00 and others do not exist" in at_two[0].note


@pytest.mark.parametrize(
    ("seconds", "phase", "expected"),
    [
        (3600, None, ["2026-03-08T06:00", "2026-03-08T07:00"]),
        (3600, "09:07", ["2026-03-08T06:07", "2026-03-08T07:07"]),
        (5400, "2026-03-08T00:00:00-05:00", ["2026-03-08T06:30", "2026-03-08T08:00"]),
        (5400, "2030-01-01T00:00:30Z", ["2026-03-08T06:00:30", "2026-03-08T07:30:30"]),
        (86400, "00:30:15", ["2026-03-09T05:30:15", "2026-03-10T05:30:15"]),
    ],
)
def test_intervals(seconds: float, phase: str | None, expected: list[str]) -> None:
    schedule = interval_schedule(seconds, NEW_YORK, phase)
    assert fires(schedule, "2026-03-08T05:50", expected[-1]) == expected


def test_an_anchor_may_have_a_fraction() -> None:
    schedule = interval_schedule(60, phase="2026-01-01T00:00:00.250Z")
    fire = utc("2026-01-01T00:00:00.250")
    assert schedule.next_after(fire - TICK) == fire
    assert schedule.next_after(fire) == fire + timedelta(minutes=1)
    assert schedule.previous_before(fire + TICK) == fire
    assert schedule.previous_before(fire) == fire - timedelta(minutes=1)


@pytest.mark.parametrize("seconds", [0, -5, 0.5, 1.5, 1e9, float("nan"), float("inf")])
def test_intervals_that_cannot_be(seconds: float) -> None:
    with pytest.raises(InvalidSchedule, match="write whole seconds from 1 to 315360000"):
        interval_schedule(seconds)


@pytest.mark.parametrize(
    "phase",
    ["", "9:07", "24:00", "09:60", "tomorrow", "2026-01-01", "2026-01-01T00:00:00", "09:07Z",
     "2026-02-30T00:00:00Z", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00+0100"],
)  # fmt: skip
def test_phases_that_cannot_be_read(phase: str) -> None:
    with pytest.raises(InvalidSchedule, match="write a local time of day such as 09:07"):
        interval_schedule(60, phase=phase)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("", "an IANA name such as"),
        ("../../etc/passwd", "an IANA name such as"),
        ("/usr/share/zoneinfo/UTC", "write"),
        ("Europe/Berlin\0", "Europe/Berlin"),
        ("x" * 100_000, "an IANA name such as"),
    ],
)
def test_zones_that_do_not_exist(name: str, suggestion: str) -> None:
    with pytest.raises(InvalidSchedule, match="there is no time zone") as caught:
        cron_schedule("0 9 * * *", name)
    assert suggestion in caught.value.detail
    assert len(caught.value.detail) < 400


def test_descriptions_name_the_zone() -> None:
    assert cron_schedule("0 9 * * *", NEW_YORK).describe().endswith(f" ({NEW_YORK})")
    assert interval_schedule(900).describe().endswith(" (UTC)")
