"""Stored bytes of tenants, and when to count them again.

A tenant's bytes grow with the statements that store something. What goes is found when they are
counted: so they are never too few, and too many until the next count at the most.
"""

from datetime import datetime, timedelta

import msgspec

_NEAR = 0.8  # of the quota: from there on it matters what is really there
_SHORTEST = timedelta(seconds=5)
_LONGEST = timedelta(days=1)
_REST = 20  # times as long as a count took, at least: a count costs what the tenant has


class StorageLevel(msgspec.Struct, frozen=True):
    """The stored bytes of a tenant, as far as they are known."""

    tenant_id: str
    stored: int
    counted_at: datetime | None
    count_seconds: float
    freed: int = 0  # bytes that were ever taken off it, other than by a count


def to_count(level: StorageLevel, most: int, now: datetime) -> bool:
    """Whether a tenant is to be counted now."""
    if level.counted_at is None:
        return True
    rest = max(_SHORTEST, timedelta(seconds=_REST * level.count_seconds))
    if level.stored < _NEAR * most:
        rest = max(rest, _LONGEST)
    return now - level.counted_at >= rest
