"""What a cron job may be declared as, and that its id has no say in it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gnomon.cron.job import Definition, checked, schedule_of
from gnomon.model.errors import InvalidSchedule
from gnomon.model.targets.target import PythonTarget

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def definition(expression: str, **values: Any) -> Definition:
    target = PythonTarget("f")
    return Definition(
        name="job", task_type="t", target=target, cron_expression=expression, **values
    )


def test_dates_are_refused_where_no_job_would_fire_between_them() -> None:
    """`H` is some month: in January those jobs fire that it came to January for."""
    dates = {"start_date": NEW_YEAR, "end_date": NEW_YEAR + timedelta(days=10)}
    months = range(12)
    for month in months:  # whatever the draw of nobody is, it is in one of these
        moved = {name: moment + timedelta(days=30.5 * month) for name, moment in dates.items()}
        checked(definition("0 0 H(1-28) H *", **moved))
    with pytest.raises(InvalidSchedule, match="nothing fires between"):
        checked(definition("0 0 H(20-28) H *", **dates))
    with pytest.raises(InvalidSchedule, match="nothing fires between"):
        checked(definition("0 0 1 H(2-12) *", **dates))


def test_a_job_with_a_step_that_is_refused_by_now_keeps_its_times() -> None:
    long = definition("*/90 * * * *")
    with pytest.raises(InvalidSchedule, match="interval_seconds = 5400"):
        checked(long)
    assert schedule_of(long, "a job").next_after(NEW_YEAR) == NEW_YEAR + timedelta(hours=1)


@pytest.mark.parametrize("expression", ["0 0 31 H *", "0 0 H(28-31) 2 *", "0 0 L-30 H *"])
def test_a_job_that_was_taken_once_is_taken_under_every_id(expression: str) -> None:
    checked(definition(expression))
    for number in range(200):
        assert schedule_of(definition(expression), f"id-{number}").next_after(NEW_YEAR)
