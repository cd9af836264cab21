"""Task ids: UUIDv7, so that creation order is key order and the archive can be cut by id."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_DIGITS = 32
_HEX = frozenset("0123456789abcdef")

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62


def uuid7(millis: int, entropy: int) -> UUID:
    """The id made at `millis` since the epoch; `entropy` fills the other 74 bits."""
    return UUID(int=uuid7_number(millis, entropy))


def uuid7_number(millis: int, entropy: int) -> int:
    """The same as a number."""
    high = (entropy >> 62) & 0xFFF
    low = entropy & ((1 << 62) - 1)
    return (millis & ((1 << 48) - 1)) << 80 | _VERSION | high << 64 | _VARIANT | low


def ids_with_prefix(text: str) -> tuple[UUID, UUID]:
    """The smallest and the largest id that begin with these hexadecimal digits, with or without
    hyphens. Raises ValueError."""
    digits = text.replace("-", "").lower()
    if not 0 < len(digits) <= _DIGITS or not _HEX.issuperset(digits):
        raise ValueError("must be the first hexadecimal digits of an id")
    missing = _DIGITS - len(digits)
    return UUID(digits + "0" * missing), UUID(digits + "f" * missing)


def created_at(task_id: UUID) -> datetime:
    """The moment in a UUIDv7, to the millisecond."""
    return _EPOCH + (task_id.int >> 80) * _MILLISECOND


def lowest_id(moment: datetime) -> UUID:
    """The smallest id of `moment`: the bound of a partition."""
    return UUID(int=(moment - _EPOCH) // _MILLISECOND << 80)
