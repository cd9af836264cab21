"""What the API asks of its store about usage: the contract that every store keeps.

What was used is written by the statements that use it, and is read as it stands: nothing is
estimated, and nothing counted later. Days are those of UTC, by the store's clock.
"""

from datetime import date
from typing import Protocol

import msgspec

KEPT_DAYS = 400


class DayUsage(msgspec.Struct, frozen=True):
    """What a tenant used on a day."""

    day: date
    submissions: int  # tasks that were stored, by submission or by a cron job
    executions: int  # tries that have ended, however they ended
    compute_seconds: float  # from the start to the end of these
    stored_bytes: int  # payloads, results and responses that were written


class UsageStore(Protocol):
    """Where usage is kept."""

    async def today(self) -> date:
        """The day that usage is written to now."""

    async def days(self, tenant_id: str, first: date, last: date) -> list[DayUsage]:
        """The days on which a tenant used anything, from `first` to `last`, in order."""
