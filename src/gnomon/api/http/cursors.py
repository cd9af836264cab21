"""Cursors as opaque text, so that their contents can change."""

import base64
import binascii
import struct
from uuid import UUID

from gnomon.model.errors import InvalidTask

_NUMBER = struct.Struct(">q")


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


def no_cursor() -> InvalidTask:
    return InvalidTask("is not a cursor; use the next_cursor of the previous page", "/cursor")


def _text(contents: bytes) -> str:
    return base64.urlsafe_b64encode(contents).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise no_cursor() from error
