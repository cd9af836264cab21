"""Task ids: UUIDv7, so that creation order is key order and the archive can be cut by id."""

from datetime import UTC, datetime
from uuid import UUID

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62


def uuid7(millis: int, entropy: int) -> UUID:
    """The id made at `millis` since the epoch; `entropy` fills the other 74 bits."""
    high = (entropy >> 62) & 0xFFF
    low = entropy & ((1 << 62) - 1)
    return UUID(int=(millis & ((1 << 48) - 1)) << 80 | _VERSION | high << 64 | _VARIANT | low)


def created_at(task_id: UUID) -> datetime:
    """The moment in a UUIDv7, to the millisecond."""
    return datetime.fromtimestamp((task_id.int >> 80) / 1000, UTC)


def lowest_id(moment: datetime) -> UUID:
    """The smallest id of `moment`: the bound of a partition."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)
