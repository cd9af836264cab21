"""Cursors as opaque text, so that their contents can change."""

import base64
import binascii
import struct
from datetime import UTC, datetime, timedelta
from uuid import UUID

from gnomon.model.errors import InvalidTask
from gnomon.store.ports.work.dead_letters import GroupCursor, ResolvedCursor

_NUMBER = _MOMENT = struct.Struct(">q")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cursor_view(cursor: UUID | None) -> str | None:
    return None if cursor is None else _text(cursor.bytes)


def cursor_of(text: str | None) -> UUID | None:
    """Raises InvalidTask, with the place."""
    if text is None:
        return None
    try:
        return UUID(bytes=_bytes(text))
    except ValueError as error:
        raise no_cursor() from error


def number_cursor_view(cursor: int | None) -> str | None:
    return None if cursor is None else _text(_NUMBER.pack(cursor))


def number_cursor_of(text: str | None) -> int | None:
    """Raises InvalidTask, with the place."""
    if text is None:
        return None
    try:
        (number,) = _NUMBER.unpack(_bytes(text))
    except struct.error as error:
        raise no_cursor() from error
    return int(number)


def group_cursor_view(cursor: GroupCursor | None) -> str | None:
    if cursor is None:
        return None
    return _text(_MOMENT.pack(_micros(cursor.last_seen)) + _NUMBER.pack(cursor.fingerprint))


def group_cursor_of(text: str | None) -> GroupCursor | None:
    """Raises InvalidTask, with the place."""
    if text is None:
        return None
    at, rest = _moment_first(text)
    try:
        return GroupCursor(at, *_NUMBER.unpack(rest))
    except struct.error as error:
        raise no_cursor() from error


def resolved_cursor_view(cursor: ResolvedCursor | None) -> str | None:
    if cursor is None:
        return None
    return _text(_MOMENT.pack(_micros(cursor.resolved_at)) + cursor.task_id.bytes)


def resolved_cursor_of(text: str | None) -> ResolvedCursor | None:
    """Raises InvalidTask, with the place."""
    if text is None:
        return None
    at, rest = _moment_first(text)
    try:
        return ResolvedCursor(at, UUID(bytes=rest))
    except ValueError as error:
        raise no_cursor() from error


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _moment_first(text: str) -> tuple[datetime, bytes]:
    contents = _bytes(text)
    try:
        (micros,) = _MOMENT.unpack_from(contents)
        return _EPOCH + timedelta(microseconds=micros), contents[_MOMENT.size :]
    except (struct.error, OverflowError) as error:
        raise no_cursor() from error


def no_cursor() -> InvalidTask:
    return InvalidTask("is not a cursor; use the next_cursor of the previous page", "/cursor")


def _text(contents: bytes) -> str:
    return base64.urlsafe_b64encode(contents).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise no_cursor() from error
