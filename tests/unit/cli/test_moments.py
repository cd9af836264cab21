"""Moments as people type them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.cli.shared.moments import LocalZone, parsed

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 14, 30, tzinfo=UTC)  # a Monday; 15:30 in Berlin

moments = st.integers(946_684_800, 4_102_444_800).map(
    lambda each: datetime.fromtimestamp(each, UTC)
)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]).map(ZoneInfo)
clocks = st.times().map(lambda each: each.replace(second=0, microsecond=0))
days = st.sampled_from(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday"])


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("now", "2026-11-16 15:30"),
        ("today 17:30", "2026-11-16 17:30"),
        ("Tomorrow  at 9:00", "2026-11-17 09:00"),
        ("tomorrow 9am", "2026-11-17 09:00"),
        ("monday 15:31", "2026-11-16 15:31"),
        ("monday 8:30", "2026-11-23 08:30"),
        ("sunday 23:59:30", "2026-11-22 23:59:30"),
        ("16:00", "2026-11-16 16:00"),
        ("09:00", "2026-11-17 09:00"),
        ("9pm", "2026-11-16 21:00"),
        ("in 10 minutes", "2026-11-16 15:40"),
        ("in 1h30m", "2026-11-16 17:00"),
        ("in 1 hour and 30 minutes", "2026-11-16 17:00"),
        ("in 2 days", "2026-11-18 15:30"),
        ("in 0.5h", "2026-11-16 16:00"),
        ("2030-01-31", "2030-01-31 00:00"),
        ("2030-01-31 09:00", "2030-01-31 09:00"),
        ("2030-01-31T09:00:00Z", "2030-01-31 10:00"),
        ("2026-10-25T02:30+02:00", "2026-10-25 02:30"),
    ],
)
def test_what_is_understood(text: str, local: str) -> None:
    found = parsed(text, NOW, BERLIN)
    assert found.tzinfo is UTC
    assert found.astimezone(BERLIN).replace(tzinfo=None) == datetime.fromisoformat(local)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a time like"),
        ("soon", "'tomorrow 09:00'"),
        ("9", "is not a time like"),
        ("tomorrow", "needs a time of day, like 'tomorrow 09:00'"),
        ("monday morning", "needs a time of day"),
        ("today 15:30", "has passed"),
        ("next monday 9:00", "can mean two days"),
        ("25:00", "between 00:00 and 23:59"),
        ("12am", "say 00:00, 12:00"),
        ("in 10", "in 10 minutes"),
        ("in 10 parsecs", "in 10 minutes"),
        ("in 10 minutes 5", "in 10 minutes"),
        ("in 300000 days", "more than 200 years"),
        ("in 999999999 weeks", "more than 200 years"),
        ("2026-03-29 02:30", "clocks skip it on 2026-03-29"),
        ("2026-10-25 02:30", "comes twice"),
        ("0001-01-01T00:00:00+23:59", "too far away"),
        ("2030-02-30", "is not a time like"),
    ],
)
def test_what_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parsed(text, NOW, BERLIN)


def tried(text: str, now: datetime, zone: ZoneInfo) -> datetime | str:
    """The moment, or why the text is refused."""
    try:
        return parsed(text, now, zone)
    except ValueError as error:
        return str(error)


@given(moments, zones, st.one_of(clocks.map(str), st.builds("{} {}".format, days, clocks)))
def test_a_time_of_day_is_the_next_such_moment_or_refused(
    now: datetime, zone: ZoneInfo, text: str
) -> None:
    found = tried(text, now, zone)
    if isinstance(found, str):
        assert "clocks" in found
        return
    *day, clock = text.split()
    local = found.astimezone(zone)
    assert local.time() == datetime.fromisoformat(f"2000-01-01T{clock}").time()
    assert not day or f"{local:%A}".lower() == day[0]
    # A day may have 25 hours.
    assert timedelta(0) < found - now <= timedelta(days=7 if day else 1, hours=1)


@given(moments, zones)
def test_what_is_written_out_is_that_moment(moment: datetime, zone: ZoneInfo) -> None:
    assert parsed(moment.isoformat(), NOW, zone) == moment
    local = moment.astimezone(zone)
    found = tried(local.replace(tzinfo=None).isoformat(), NOW, zone)
    assert found == moment or "comes twice" in str(found)


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_refused_in_words(text: str) -> None:
    found = tried(text, NOW, BERLIN)
    assert found if isinstance(found, str) else found.tzinfo is UTC


@given(moments)
def test_the_zone_of_this_machine_is_what_its_clocks_show(moment: datetime) -> None:
    local = moment.astimezone(LocalZone())
    assert local.replace(tzinfo=None) == moment.astimezone().replace(tzinfo=None)
    assert local.astimezone(UTC) == moment
