"""How close two fires come, against the plain reading of the fires themselves."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.cron.rhythm import MOST_FIRES, check_interval, shortest_interval
from gnomon.cron.schedule import Dst, Fold, Gap, cron_schedule, interval_schedule
from gnomon.model.errors import InvalidSchedule

MOMENTS = st.integers(0, 3650 * 86400).map(
    lambda seconds: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
EXPRESSIONS = st.builds(
    lambda minute, hour, day: f"{minute} {hour} {day} * *",
    st.sampled_from(("0", "*/7", "5,6,40", "10-50/20", "59")),
    st.sampled_from(("*", "0,23", "1-3", "*/11", "2")),
    st.sampled_from(("*", "1,28", "*/9", "L")),
)
ZONES = st.sampled_from(("UTC", "America/New_York", "Australia/Lord_Howe"))
POLICIES = st.builds(Dst, st.sampled_from(Gap), st.sampled_from(Fold))


@settings(max_examples=40)
@given(EXPRESSIONS, ZONES, POLICIES, MOMENTS)
def test_it_is_the_least_of_all_distances(
    expression: str, zone: str, dst: Dst, after: datetime
) -> None:
    schedule = cron_schedule(expression, zone, dst)
    fires = [fire.at for fire in schedule.preview(after, MOST_FIRES)]
    near = [fire for fire in fires if fire <= fires[0] + timedelta(days=3653)]
    distances = [(later - sooner).total_seconds() for sooner, later in pairwise(near)]
    assert shortest_interval(schedule, after) == min(distances)


@given(st.integers(1, 10**6), MOMENTS)
def test_of_an_interval_it_is_the_interval(seconds: int, after: datetime) -> None:
    assert shortest_interval(interval_schedule(seconds), after) == seconds


@given(st.integers(0, 2), MOMENTS)
def test_who_fires_at_most_once_has_none(extra: int, after: datetime) -> None:
    ends = after + timedelta(days=extra)
    schedule = cron_schedule("0 0 1 1 *", starts=after - timedelta(days=1), ends=ends)
    assert shortest_interval(schedule, after) is None


def test_a_clock_change_brings_fires_closer() -> None:
    # At the end of winter, 02:30 is made up for at 03:00, right before the fire of 03:10.
    schedule = cron_schedule("30,10 2,3 * * *", "Europe/Berlin")
    after = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert shortest_interval(schedule, after) == 600
    check_interval(schedule, after, 600, "/cron_expression")
    check_interval(schedule, after, None, "/cron_expression")
    with pytest.raises(InvalidSchedule, match=r"600 seconds apart.*is 601") as refused:
        check_interval(schedule, after, 601, "/cron_expression")
    assert refused.value.over == ("cron_interval_seconds", 601, 600)
