"""Rare dates over a whole cycle of the calendar, 400 years, against the walk day by day."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from proof.cron_oracle.grammar import read
from proof.cron_oracle.oracle import DEFAULT, daily_fires, possible

from gnomon.cron.schedule import cron_schedule
from gnomon.model.errors import InvalidSchedule

FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2400, 1, 1, tzinfo=UTC)
RARE = (
    "0 0 29 2 *",
    "0 0 29 2 */7",  # with a star in front, both must match: 29 February on a Sunday
    "0 0 */28 2 MON",  # the 1st or 29th, on a Monday
    "0 0 * 2 FRI#5",  # as rare as 29 February on a Friday
    "0 0 29W 2 *",  # only in leap years, and then on the 27th, 28th or 29th
    "0 0 L-28 2 *",  # 1 February, in leap years
    "0 0 LW 2 ?",
    "0 0 */31 1 SUN#1",  # New Year on a Sunday; the 32nd is not
    "0 0 */30 12 SATL",  # 31 December on a Saturday; the 1st is never the last
)


@pytest.mark.parametrize("expression", RARE)
def test_every_fire_of_four_hundred_years(expression: str) -> None:
    schedule = cron_schedule(expression)
    start, end = int(FIRST.timestamp()), int(LAST.timestamp())
    expected = daily_fires(ZoneInfo("UTC"), read(expression), DEFAULT, start, end)
    assert expected
    found = [int(at.timestamp()) for at in schedule.fires(FIRST, LAST)]
    assert found == expected
    backwards, at = [], schedule.previous_before(datetime(2400, 1, 1, 0, 0, 1, tzinfo=UTC))
    while at is not None and at > FIRST:
        backwards.append(int(at.timestamp()))
        at = schedule.previous_before(at)
    assert backwards[::-1] == expected


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 L-29 2 *",
        "0 0 L-30 4 *",
        "0 0 */16 * FRI#2",  # 1 or 17, never a second Friday: that is from the 8th to the 14th
        "0 0 */29 2 MON",  # 1 or 30, so 1 February on a Monday: possible, and accepted
    ],
)
def test_what_never_comes_is_refused(expression: str) -> None:
    if possible(read(expression)):
        cron_schedule(expression)
    else:
        with pytest.raises(InvalidSchedule):
            cron_schedule(expression)


def test_2100_is_no_leap_year() -> None:
    schedule = cron_schedule("0 0 29 2 *", "America/New_York")
    fires = schedule.fires(datetime(2093, 1, 1, tzinfo=UTC), datetime(2105, 1, 1, tzinfo=UTC))
    assert [at.date().isoformat() for at in fires] == ["2096-02-29", "2104-02-29"]
