"""Values of the store of activity: what is written, and what is read of it."""

from datetime import datetime, timedelta

import msgspec

from gnomon.model.insight.activity import ActivityKey, Counts

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MINUTES_KEPT = timedelta(hours=25)  # rows by the minute, so that a day of them is there


class ActivityRow(msgspec.Struct, frozen=True):
    """What is added to the minute that begins at `minute`, and to its hour."""

    key: ActivityKey
    minute: datetime
    counts: Counts


class ActivityRange(msgspec.Struct, frozen=True):
    """The points that are asked for: from `first` on, each `step` long, before `last`."""

    first: datetime
    last: datetime
    step: timedelta

    @property
    def span(self) -> int:
        """The minutes of the rows that they are made of."""
        return 60 if self.step >= HOUR else 1


class ActivityPoint(msgspec.Struct, frozen=True):
    """One step of a range."""

    starts_at: datetime
    counts: Counts


class TypeActivity(msgspec.Struct, frozen=True):
    """A task type over a range."""

    task_type: str | None  # None: all that are not named
    counts: Counts


class UpcomingHour(msgspec.Struct, frozen=True):
    """Tasks that are due within an hour, from now on. Capped: some were not counted, and the
    estimate takes them to come as those before them."""

    starts_at: datetime
    count: int
    capped: bool
    estimate: int


class TenantActivity(msgspec.Struct, frozen=True):
    """A tenant in one step of a range."""

    tenant_id: str | None  # None: all that are not named
    starts_at: datetime
    counts: Counts
