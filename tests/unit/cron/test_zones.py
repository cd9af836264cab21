"""The hard cases by hand: what clocks do there, and which instants follow from that.

Each row says after which instant to look, and the fires that come next, in UTC. They are looked for
in both directions.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from gnomon.cron.schedule import Dst, Fold, Gap, cron_schedule

AFTER, SKIP = Gap.FIRE_AFTER, Gap.SKIP
FIRST, SECOND, BOTH = Fold.FIRST, Fold.SECOND, Fold.BOTH


class Row(NamedTuple):
    zone: str
    expression: str
    gap: Gap
    fold: Fold
    after: str
    fires: str


ROWS = [
    # New York, 2025-03-09: 02:00 EST is followed by 03:00 EDT, at 07:00Z. 02:30 never is.
    Row("America/New_York", "30 2 * * *", AFTER, FIRST, "2025-03-08T12:00", "09T07:00 10T06:30"),
    Row("America/New_York", "30 2 * * *", SKIP, FIRST, "2025-03-08T12:00", "10T06:30 11T06:30"),
    # Four times, of which two are in the gap and one is its end: together one fire.
    Row(
        "America/New_York", "0,30 2,3 * * *", AFTER, FIRST, "2025-03-09T00:00", "09T07:00 09T07:30"
    ),
    # The second of a time in the gap is lost with it.
    Row("America/New_York", "15 30 2 * * *", AFTER, FIRST, "2025-03-09T00:00", "09T07:00"),
    # With a star in minute or hour it is about real time: the gap has no 02:xx, so nothing fires.
    Row("America/New_York", "*/15 2 * * *", AFTER, FIRST, "2025-03-08T12:00", "10T06:00 10T06:15"),
    Row("America/New_York", "30 * * * *", SKIP, FIRST, "2025-03-09T06:00", "09T06:30 09T07:30"),
    # A range over all hours is no star: what was to fire at 02:30 fires after the gap.
    Row("America/New_York", "30 0-23 * * *", AFTER, FIRST, "2025-03-09T06:00", "09T06:30 09T07:00"),
    # 2025-11-02: 01:00-02:00 is first EDT (05:00Z), then EST (06:00Z).
    Row("America/New_York", "30 1 * * *", AFTER, FIRST, "2025-11-02T00:00", "02T05:30 03T06:30"),
    Row("America/New_York", "30 1 * * *", AFTER, SECOND, "2025-11-02T00:00", "02T06:30 03T06:30"),
    Row(
        "America/New_York",
        "30 1 * * *",
        AFTER,
        BOTH,
        "2025-11-02T00:00",
        "02T05:30 02T06:30 03T06:30",
    ),
    Row(
        "America/New_York",
        "30 * * * *",
        AFTER,
        FIRST,
        "2025-11-02T05:00",
        "02T05:30 02T06:30 02T07:30",
    ),
    # Begun between the passes, the first one is over.
    Row("America/New_York", "30 1 * * *", AFTER, FIRST, "2025-11-02T06:10", "03T06:30"),
    # 2100 has no entry in any table: the rule "second Sunday of March" goes on for ever.
    Row("America/New_York", "30 2 * * *", AFTER, FIRST, "2100-03-13T12:00", "14T07:00 15T06:30"),
    # London: 01:00 to 02:00 is missing on 2025-03-30 and double on 2025-10-26, both from 01:00Z.
    Row("Europe/London", "30 1 * * *", AFTER, FIRST, "2025-03-29T12:00", "30T01:00 31T00:30"),
    Row("Europe/London", "30 1 * * *", AFTER, FIRST, "2025-10-25T12:00", "26T00:30 27T01:30"),
    Row("Europe/London", "30 1 * * *", AFTER, SECOND, "2025-10-25T12:00", "26T01:30 27T01:30"),
    # Dublin has the same clock, but calls the summer standard and the winter a shift of -1.
    Row("Europe/Dublin", "30 1 * * *", AFTER, FIRST, "2025-03-29T12:00", "30T01:00 31T00:30"),
    Row("Europe/Dublin", "30 1 * * *", AFTER, BOTH, "2025-10-25T12:00", "26T00:30 26T01:30"),
    # Lord Howe shifts by half an hour. 2025-10-05: 02:00+10:30 becomes 02:30+11, at 15:30Z before.
    Row("Australia/Lord_Howe", "15 2 * * *", AFTER, FIRST, "2025-10-04T00:00", "04T15:30 05T15:15"),
    Row("Australia/Lord_Howe", "15 2 * * *", SKIP, FIRST, "2025-10-04T00:00", "05T15:15"),
    # 2025-04-06: 02:00+11 becomes 01:30+10:30, at 15:00Z. 01:45 is double, 01:15 is not.
    Row("Australia/Lord_Howe", "45 1 * * *", AFTER, BOTH, "2025-04-05T00:00", "05T14:45 05T15:15"),
    Row("Australia/Lord_Howe", "15 1 * * *", AFTER, BOTH, "2025-04-05T00:00", "05T14:15 06T14:45"),
    # Apia crossed the date line: after 2011-12-29 (-10) came the 31st (+14), at 10:00Z of the 30th.
    # The 30th is a gap of 24 hours, so its 09:00 fires at the midnight with which the 31st begins.
    Row(
        "Pacific/Apia", "0 9 * * *", AFTER, FIRST, "2011-12-29T12:00", "29T19:00 30T10:00 30T19:00"
    ),
    Row("Pacific/Apia", "0 9 * * *", SKIP, FIRST, "2011-12-29T12:00", "29T19:00 30T19:00"),
    Row("Pacific/Apia", "0 0 30 12 *", AFTER, FIRST, "2011-12-29T12:00", "30T10:00"),
    # The midnight of the 30th moves to that of the 31st, which fires anyway: once.
    Row("Pacific/Apia", "0 0 * * *", AFTER, FIRST, "2011-12-29T12:00", "30T10:00 31T10:00"),
    # 2011-12-30 would have been a Friday.
    Row("Pacific/Apia", "0 9 * * FRI", AFTER, FIRST, "2011-12-29T12:00", "30T10:00"),
    # Kwajalein left out 1993-08-21 likewise, at 12:00Z.
    Row("Pacific/Kwajalein", "0 15 21 8 *", AFTER, FIRST, "1993-08-20T00:00", "21T12:00"),
    # Casablanca goes back an hour for Ramadan: 2025-02-23 03:00+01 becomes 02:00+00, at 02:00Z,
    # and on 2025-04-06 forward again, at 02:00Z.
    Row("Africa/Casablanca", "30 2 * * *", AFTER, FIRST, "2025-02-22T12:00", "23T01:30 24T02:30"),
    Row("Africa/Casablanca", "30 2 * * *", AFTER, SECOND, "2025-02-22T12:00", "23T02:30 24T02:30"),
    Row("Africa/Casablanca", "30 2 * * *", AFTER, FIRST, "2025-04-05T12:00", "06T02:00 07T01:30"),
    # Troll shifts by two hours. 2025-03-30: 01:00+00 becomes 03:00+02, at 01:00Z. Three in one.
    Row("Antarctica/Troll", "0 1,2,3 * * *", AFTER, FIRST, "2025-03-30T00:00", "30T01:00 30T23:00"),
    # 2025-10-26: 03:00+02 becomes 01:00+00, at 01:00Z. 03:00 itself is not repeated.
    Row("Antarctica/Troll", "30 1 * * *", AFTER, BOTH, "2025-10-25T12:00", "25T23:30 26T01:30"),
    Row("Antarctica/Troll", "0 3 * * *", AFTER, BOTH, "2025-10-25T12:00", "26T03:00 27T03:00"),
    # Chatham, 2025-09-28: 02:45+12:45 becomes 03:45+13:45, at 14:00Z of the 27th.
    Row("Pacific/Chatham", "30 2,3 * * *", AFTER, FIRST, "2025-09-27T00:00", "27T13:45 27T14:00"),
    # 2025-04-06: 03:45+13:45 becomes 02:45+12:45, at 14:00Z of the 5th.
    Row("Pacific/Chatham", "0 3 * * *", AFTER, BOTH, "2025-04-05T00:00", "05T13:15 05T14:15"),
    # Santiago, 2025-09-07: the day begins at 01:00-03, at 04:00Z. It is a Sunday.
    Row("America/Santiago", "0 0 * * SUN", AFTER, FIRST, "2025-09-06T12:00", "07T04:00 14T03:00"),
    Row("America/Santiago", "0 0,1 * * *", AFTER, FIRST, "2025-09-06T12:00", "07T04:00 08T03:00"),
    Row("America/Santiago", "0 0 * * *", SKIP, FIRST, "2025-09-06T12:00", "08T03:00"),
    # 2025-04-05, a Saturday, has its last hour twice (to 03:00Z, to 04:00Z of the 6th).
    Row("America/Santiago", "30 23 * * SAT", AFTER, BOTH, "2025-04-05T12:00", "06T02:30 06T03:30"),
    # Midnight is not repeated: the clock goes back at the very moment it would be.
    Row("America/Santiago", "0 0 6 4 *", AFTER, BOTH, "2025-04-05T12:00", "06T04:00"),
    # Havana, 2025-03-09: the day begins at 01:00-04, at 05:00Z; on 2025-11-02 it has 00:00 twice.
    Row("America/Havana", "0 0 * * *", AFTER, FIRST, "2025-03-08T12:00", "09T05:00 10T04:00"),
    Row("America/Havana", "0 0 * * *", AFTER, FIRST, "2025-11-01T12:00", "02T04:00 03T05:00"),
    Row("America/Havana", "0 0 * * *", AFTER, BOTH, "2025-11-01T12:00", "02T04:00 02T05:00"),
    # St John's shifted at 00:01 up to 2011. 2010-03-14: 00:01-03:30 becomes 01:01-02:30, at 03:31Z.
    Row("America/St_Johns", "0,30 0 * * *", AFTER, FIRST, "2010-03-13T12:00", "14T03:30 14T03:31"),
    # 2010-11-07: 00:01-02:30 becomes 23:01-03:30 of the 6th, at 02:31Z. So the first minute of the
    # 7th is repeated as well, with a part of the 6th between the two.
    Row("America/St_Johns", "0 0 7 11 *", AFTER, BOTH, "2010-11-06T12:00", "07T02:30 07T03:30"),
    Row("America/St_Johns", "30 23 * * *", AFTER, SECOND, "2010-11-06T12:00", "07T03:00 08T03:00"),
    # Monrovia was 0:44:30 behind up to 1972-01-07, which began at 00:44:30Z.
    Row("Africa/Monrovia", "30 0 * * *", AFTER, FIRST, "1972-01-06T12:00", "07T00:44:30 08T00:30"),
    Row("Africa/Monrovia", "0 12 6 1 *", AFTER, FIRST, "1972-01-06T00:00", "06T12:44:30"),
    # Where nothing is shifted, no policy matters.
    Row("Asia/Kolkata", "30 5 * * *", SKIP, SECOND, "2025-03-08T12:00", "09T00:00 10T00:00"),
    Row("UTC", "30 2 * * *", SKIP, SECOND, "2025-03-08T12:00", "09T02:30 10T02:30"),
]


def _instants(row: Row) -> tuple[datetime, list[datetime]]:
    """Fires are written without year and month, which are those of `after`."""
    after = datetime.fromisoformat(row.after + "Z")
    month = row.after[:8]
    return after, [datetime.fromisoformat(f"{month}{fire}Z") for fire in row.fires.split()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.zone} {row.expression} {row.after}")
def test_forwards_and_backwards(row: Row) -> None:
    after, expected = _instants(row)
    schedule = cron_schedule(row.expression, row.zone, Dst(gap=row.gap, fold=row.fold))
    found, moment = [], after
    for _ in expected:
        at = schedule.next_after(moment)
        assert at is not None
        found.append(at)
        moment = at
    assert found == expected
    moment = expected[-1] + timedelta(microseconds=1)
    for wanted in reversed(expected):
        at = schedule.previous_before(moment)
        assert at == wanted
        moment = wanted
    assert [fire.at for fire in schedule.preview(after, len(expected))] == expected
    assert list(schedule.fires(after, expected[-1])) == expected
    assert all(at.tzinfo is UTC for at in found)
