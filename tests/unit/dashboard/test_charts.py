"""Charts and their tables say the same."""

from datetime import UTC, datetime, timedelta

import pytest

from gnomon.dashboard.drawing.charts import delay_chart, flow_chart, share_chart, upcoming_chart
from gnomon.dashboard.text.words import NONE
from gnomon.model.insight.activity import Counts
from gnomon.store.ports.insight.activity import ActivityPoint, ActivityRange, UpcomingHour
from gnomon.usecases.tasks.activity import ActivityOfAll, TenantPoints

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def points(*started: int, failed: int = 0) -> list[ActivityPoint]:
    return [
        ActivityPoint(NOON + place * MINUTE, Counts(started=number, failed=failed, seconds=number))
        for place, number in enumerate(started)
    ]


def within(last: timedelta) -> ActivityRange:
    return ActivityRange(NOON, NOON + last, MINUTE)


def test_rates_are_of_the_time_that_has_passed() -> None:
    chart = flow_chart(within(timedelta(seconds=90)), points(120, 60, failed=30))
    assert [each.values for each in chart.data.series] == [[2.0, 2.0], [0.5, 1.0]]
    assert chart.rows[0] == (NOON, ["2\u202f/s", "0.5\u202f/s"])
    assert not chart.empty


def test_a_step_that_has_just_begun_is_left_out() -> None:
    chart = flow_chart(within(timedelta(seconds=65)), points(120, 60))
    assert chart.data.at == [NOON.timestamp()]


def test_where_nothing_started_there_is_no_delay() -> None:
    chart = delay_chart(within(MINUTE), points(0))
    assert [each.values for each in chart.data.series] == [[None]] * 3
    assert chart.rows == [(NOON, [NONE] * 3)]
    assert chart.empty


def test_what_was_estimated_is_said_to_be() -> None:
    hours = [
        UpcomingHour(NOON, 3, False, 3),
        UpcomingHour(NOON, 1000, True, 5000),
        UpcomingHour(NOON, 1000, True, 1000),
    ]
    chart = upcoming_chart(hours)
    assert [cells for _, cells in chart.rows] == [["3"], ["about 5\u202f000"], ["1\u202f000+"]]
    assert chart.note
    assert not upcoming_chart(hours[:1]).note


def test_shares_are_of_each_step_and_others_are_the_rest() -> None:
    tenants = [TenantPoints(f"t{n}", points(1, 0), Counts()) for n in range(9)]
    all_tenants = ActivityOfAll(
        within(2 * MINUTE), points(10, 0), Counts(), [*tenants, TenantPoints(None, [], Counts())]
    )
    chart = share_chart(all_tenants, lambda point: point.counts.started)
    assert [each.label for each in chart.data.series] == [
        *(f"t{n}" for n in range(7)),
        "all others",
    ]
    assert [each.values[0] for each in chart.data.series] == pytest.approx([0.1] * 7 + [0.3])
    assert chart.rows[1] == (NOON + MINUTE, [NONE] * 8)
