"""Moments in requests, as they are stored: in UTC, and within the years that can be."""

from datetime import UTC, datetime

from gnomon.model.errors import InvalidTask

FIRST_YEAR, LAST_YEAR = 1971, 2199
_LAST = datetime(LAST_YEAR, 12, 31, 23, 59, 59, tzinfo=UTC)


def moment_of(moment: datetime, pointer: str) -> datetime:
    """The moment in UTC. Raises InvalidTask, with the place."""
    # In its own zone it may still be the year before, or the one after: up to a day away.
    if FIRST_YEAR - 1 <= moment.year <= LAST_YEAR + 1:
        at = moment.astimezone(UTC)
        if FIRST_YEAR <= at.year <= LAST_YEAR:
            return at
    raise InvalidTask(f"must be in the years {FIRST_YEAR} to {LAST_YEAR} of UTC", pointer)


def latest_of(moment: datetime) -> datetime:
    """The moment in UTC, or the last one that can be stored."""
    return min(moment, _LAST)


def utc(moment: datetime | None, pointer: str) -> datetime | None:
    """The same where there is a moment."""
    return None if moment is None else moment_of(moment, pointer)
