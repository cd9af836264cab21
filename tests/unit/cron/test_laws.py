"""Laws that hold for every schedule, in every zone, from every moment."""

import struct
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from zoneinfo import TZPATH, available_timezones

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gnomon.cron.schedule import Dst, Fold, Gap, Schedule, cron_schedule, interval_schedule
from gnomon.cron.timeline import PROBE

NEW_YORK = "America/New_York"
TICK = timedelta(microseconds=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


numbers = st.lists(st.integers(0, 23), min_size=1, max_size=3).map(
    lambda chosen: ",".join(map(str, chosen))
)
minutes = st.sampled_from(["*", "*/7", "0", "30", "59", "H", "H/20", "0-10/5", "15,45", "0-59"])
day_fields = st.sampled_from([
    "* * *", "1 * *", "L * *", "LW * *", "15W * *", "31 * *", "29 2 *", "*/2 * MON", "13 * FRI",
    "* * MON-FRI", "* * 5#5", "* 3,10,11 SUN", "* 2 0#5", "L-2 * 1L", "29 2 */4", "30 12 *",
])  # fmt: skip
zones = st.sampled_from([
    NEW_YORK, "UTC", "Europe/London", "Australia/Lord_Howe", "Pacific/Apia", "Antarctica/Troll",
    "America/Havana", "America/Santiago", "Africa/Casablanca", "Pacific/Chatham", "Asia/Manila",
    "Africa/Monrovia", "Europe/Dublin", "Pacific/Kwajalein", "Africa/Freetown",
])  # fmt: skip
policies = st.builds(Dst, st.sampled_from(Gap), st.sampled_from(Fold))
# Changes of those zones; a day was left out or repeated in Manila, Kwajalein and Apia, and two
# changes of Freetown's are four days apart.
changes = st.sampled_from([
    "2026-03-08T07:00", "2026-11-01T06:00", "2026-03-29T01:00", "2026-10-25T01:00",
    "2026-04-04T15:00", "2026-10-03T15:30", "2011-12-30T10:00", "2026-03-08T05:00",
    "2026-11-01T05:00", "2026-04-05T03:00", "2026-09-06T04:00", "2026-02-15T02:00",
    "1844-12-31T16:00", "1969-09-30T13:00", "1993-08-21T12:00", "1939-09-03T01:00",
]).map(utc)  # fmt: skip
moments = st.builds(
    lambda moment, seconds: moment + timedelta(seconds=seconds),
    changes | st.just(utc("2000-01-01T00:00")),
    st.integers(-3 * 86400, 3 * 86400) | st.integers(-5 * 10**9, 5 * 10**9),
)
crons = st.builds(
    lambda seconds, minute, hour, days, name, dst: cron_schedule(
        f"{seconds}{minute} {hour} {days}", name, dst, "seed"
    ),
    st.sampled_from(["", "", "0 ", "*/20 ", "59 "]),
    minutes,
    numbers | st.sampled_from(["*", "*/5", "0-23"]),
    day_fields,
    zones,
    policies,
)
intervals = st.builds(
    interval_schedule,
    st.integers(1, 10**8),
    zones,
    st.sampled_from([None, "09:07", "2026-01-01T00:00:00.5Z"]),
)
schedules = crons | intervals


@given(schedules, moments)
@settings(max_examples=400, deadline=None)
def test_fires_go_forth_and_come_back(schedule: Schedule, moment: datetime) -> None:
    """Strictly later each time, and going back meets the same fires."""
    found = [moment]
    for _ in range(12):
        at = schedule.next_after(found[-1])
        assert at is not None
        assert at > found[-1]
        found.append(at)
    for earlier, later in pairwise(found[1:]):
        assert schedule.previous_before(later) == earlier
    before = schedule.previous_before(found[1])
    assert before is not None
    assert before <= moment
    assert schedule.next_after(before) == found[1]


@given(schedules, moments, st.integers(0, 10**7))
@settings(max_examples=300, deadline=None)
def test_searches_agree_wherever_they_begin(
    schedule: Schedule, moment: datetime, seconds: int
) -> None:
    """No moment before the next fire, or after the last, gives another answer."""
    at = schedule.next_after(moment)
    assert at is not None
    between = moment + timedelta(seconds=seconds)
    assume(between < at)
    assert schedule.next_after(between) == at
    assert schedule.next_after(at - TICK) == at
    assert schedule.previous_before(at + TICK) == at
    assert schedule.previous_before(at) == schedule.previous_before(between + TICK)


@given(crons, moments)
@settings(max_examples=300, deadline=None)
def test_previews_and_iterations_are_the_same_fires(schedule: Schedule, moment: datetime) -> None:
    previewed = schedule.preview(moment, 5)
    ats = [fire.at for fire in previewed]
    assert list(islice(schedule.fires(moment, datetime.max.replace(tzinfo=UTC)), 5)) == ats
    assert list(schedule.fires(moment, ats[-1])) == ats
    for fire in previewed:
        assert fire.local.astimezone(UTC) == fire.at  # PEP 495: unequal as such in a fold
        assert fire.at.microsecond == 0
        assert fire.at.tzinfo is UTC


@given(moments, st.integers(0, 400), st.data())
@settings(max_examples=200, deadline=None)
def test_fires_keep_between_the_dates(moment: datetime, days: int, data: st.DataObject) -> None:
    ends = moment + timedelta(days=days)
    text, name = data.draw(st.sampled_from(["0 0 * * *", "*/7 5 L * *", "30 1 * * 0"])), NEW_YORK
    free = cron_schedule(text, name)
    bounded = cron_schedule(text, name, starts=moment, ends=ends)
    wide = (moment - timedelta(days=99), ends + timedelta(days=99))
    assert list(bounded.fires(*wide)) == list(free.fires(moment - TICK, ends))
    assert bounded.next_after(ends) is None
    assert bounded.previous_before(moment) is None
    assert bounded.previous_before(wide[1]) == max(bounded.fires(*wide), default=None)


def test_a_search_is_bounded_however_rare_the_day() -> None:
    """A fifth Sunday of February from every year of a whole cycle: 40 years apart at most."""
    schedule = cron_schedule("0 0 * 2 0#5", NEW_YORK)
    found = list(schedule.fires(utc("1999-01-01T00:00"), utc("2399-12-31T00:00")))
    assert len(found) == 13
    assert max(b - a for a, b in pairwise(found)) < timedelta(days=40 * 366)


def test_no_change_of_any_zone_hides_between_two_probes() -> None:
    for name in available_timezones():
        changes = [at for at, _ in _changes(name)]
        assert all(later - earlier > PROBE for earlier, later in pairwise(changes)), name


def _changes(name: str) -> list[tuple[int, int]]:
    """Moments and new offsets, as the zone's file (RFC 9636) has them."""
    files = (Path(place, name) for place in TZPATH)
    content = next((file.read_bytes() for file in files if file.is_file()), None)
    if content is None:
        pytest.skip("the tz database is not in files here")
    header = 0
    for size in (4, 8):  # the second part has what the first has, with 8 bytes a moment
        is_ut, is_std, leap, times, types, chars = struct.unpack_from(">6l", content, header + 20)
        body = header + 44
        header = body + times * (size + 1) + types * 6 + chars + leap * (size + 4) + is_std + is_ut
    moments = struct.unpack_from(f">{times}q", content, body)
    kinds = content[body + 8 * times :][:times]
    offsets = [offset for offset, _, _ in struct.iter_unpack(
        ">lbb", content[body + 9 * times :][: 6 * types]
    )]  # fmt: skip
    found: list[tuple[int, int]] = [(-(2**63), offsets[0])]
    for moment, kind in zip(moments, kinds, strict=True):
        if offsets[kind] != found[-1][1]:
            found.append((moment, offsets[kind]))
    return found[1:]
