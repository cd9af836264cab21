"""The time that a page looks back on, as its address says."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from gnomon.api.context import Request
from gnomon.usecases.tasks.activity import ActivityQuestion


class TimeRange(msgspec.Struct, frozen=True):
    """How far back, and in which steps: so that a chart has sixty to a hundred points."""

    name: str
    label: str
    length: timedelta
    step: timedelta

    def question(self, now: datetime) -> ActivityQuestion:
        return ActivityQuestion(now - self.length, now, self.step)


RANGES = (
    TimeRange("hour", "Last hour", timedelta(hours=1), timedelta(minutes=1)),
    TimeRange("day", "Last day", timedelta(days=1), timedelta(minutes=15)),
    TimeRange("week", "Last week", timedelta(days=7), timedelta(hours=2)),
)
# Of all tenants, what is longer than some hours is only read by the hour.
RANGES_OF_ALL = (
    RANGES[0],
    TimeRange("day", "Last day", timedelta(days=1), timedelta(hours=1)),
    TimeRange("week", "Last week", timedelta(days=7), timedelta(hours=3)),
)


def range_in(request: Request, ranges: Sequence[TimeRange] = RANGES) -> TimeRange:
    """The one that is asked for; else the last hour."""
    asked = request.query_params.get("range", "")
    return next((each for each in ranges if each.name == asked), ranges[0])
