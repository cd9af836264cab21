"""What may surprise in a schedule is said in words."""

from datetime import UTC, datetime

import pytest

from gnomon.cron.schedule import cron_schedule
from gnomon.cron.warnings import warnings_of

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("0 9 * * MON-FRI", []),
        ("0 0 13 * *", []),
        ("0 0 */2 * MON", []),
        ("0 0 13 * FRI", ["or the weekday"]),
        ("0 0 29 2 *", ["days away"]),
        ("*/20 * * * * *", ["20 seconds apart: up to 4320 runs a day"]),
        ("* * * * *", []),
    ],
)
def test_warnings(expression: str, told: list[str]) -> None:
    fires = cron_schedule(expression).preview(NOW, 10)
    found = warnings_of(expression, fires, NOW)
    assert len(found) == len(told)
    assert all(part in whole for part, whole in zip(told, found, strict=True))


def test_a_schedule_that_has_ended_needs_no_other_warning() -> None:
    assert warnings_of(None, [], NOW) == []
