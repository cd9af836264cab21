"""Refuses text that cannot be stored, or would garble lists, logs and terminals."""

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.origin import MOST_CORRELATION_CHARACTERS, Origin, is_correlation_id
from gnomon.model.text import is_line, is_note
from gnomon.usecases.checks.request_fields import MOST_NOTE_CHARACTERS


def check_line(text: str | msgspec.UnsetType | None, pointer: str) -> None:
    """Raises InvalidTask unless the text is one line. (A payload is JSON and may hold anything.)"""
    if isinstance(text, str) and not is_line(text):
        raise InvalidTask("must not contain control characters, such as NUL or a line end", pointer)


def check_addressable(name: str, pointer: str) -> None:
    """Raises InvalidTask for a name that no address can have: browsers and proxies take it for a
    step within the path, even where it is encoded."""
    if name in (".", ".."):
        raise InvalidTask("must not be . or ..: no address can have such a name", pointer)


def check_note(text: str | msgspec.UnsetType | None, pointer: str) -> None:
    """Raises InvalidTask for control characters other than tabs and line ends."""
    if isinstance(text, str) and not is_note(text):
        raise InvalidTask("must not contain control characters but tabs and line ends", pointer)


def check_resolution_note(note: str | None) -> None:
    """Raises InvalidTask for a note that is too long, or has control characters."""
    if note is not None and len(note) > MOST_NOTE_CHARACTERS:
        detail = f"must have at most {MOST_NOTE_CHARACTERS} characters; got {len(note)}"
        raise InvalidTask(detail, "/note")
    check_note(note, "/note")


def check_key(key: str | None) -> None:
    """Raises InvalidTask where an idempotency key cannot be the value of a header unchanged."""
    if key is not None and (not key.isprintable() or key != key.strip()):
        raise InvalidTask("must be printable, without a space at its ends", "/idempotency_key")


def given_origin(correlation_id: str | None, origin: Origin | None) -> Origin | None:
    """The origin of a request, with the correlation id of its body in place of that of its header.
    Raises InvalidTask."""
    if correlation_id is None:
        return origin
    if not is_correlation_id(correlation_id):  # a pattern lets a line end pass
        detail = f"must be 1 to {MOST_CORRELATION_CHARACTERS} visible ASCII characters, no spaces"
        raise InvalidTask(detail, "/correlation_id")
    return msgspec.structs.replace(origin or Origin(), correlation_id=correlation_id)
