"""Quiet hours by the clocks of a zone."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.errors import InvalidSchedule
from gnomon.notify.quiet_hours import QuietHours

TIMES = st.sampled_from(["00:00", "01:30", "02:30", "06:00", "12:00", "22:00", "23:59"])
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia"])
SECONDS = st.integers(0, 2 * 366 * 86400)  # both changes of clocks among them


@given(TIMES, TIMES, ZONES, SECONDS)
def test_they_end_when_they_say(start: str, end: str, zone: str, later: int) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=later)
    if start == end:
        return
    quiet = QuietHours(start=start, end=end, timezone=zone)
    quiet.check()
    ends = quiet.ends_after(moment)
    assert moment < ends <= moment + timedelta(hours=26)
    if quiet.holds_at(moment):
        # Where clocks are put back over the end, it comes once more an hour later.
        assert not quiet.holds_at(ends) or not quiet.holds_at(ends + timedelta(hours=1))


def test_over_midnight() -> None:
    quiet = QuietHours(start="22:00", end="07:00", timezone="Europe/Berlin")
    assert quiet.holds_at(datetime(2026, 7, 1, 20, tzinfo=UTC))
    assert quiet.holds_at(datetime(2026, 7, 1, 4, 59, tzinfo=UTC))
    assert not quiet.holds_at(datetime(2026, 7, 1, 5, tzinfo=UTC))
    assert not quiet.holds_at(datetime(2026, 7, 1, 19, 59, tzinfo=UTC))


@pytest.mark.parametrize(
    ("start", "end", "zone"),
    [("25:00", "07:00", "UTC"), ("22:00", "7", "UTC"), ("07:00", "07:00", "UTC"), ("", "", "UTC")],
)
def test_what_they_cannot_be(start: str, end: str, zone: str) -> None:
    with pytest.raises(ValueError, match=r"start|end"):
        QuietHours(start=start, end=end, timezone=zone).check()


def test_a_zone_must_be_known() -> None:
    with pytest.raises(InvalidSchedule, match="Europe/Berlin"):
        QuietHours(start="22:00", end="07:00", timezone="Berlin").check()
