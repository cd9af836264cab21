"""An error in words, whatever its class says of itself."""

import os
import traceback
from pathlib import Path
from types import TracebackType

from gnomon.model.text import storable

MAX_ERROR = 2000  # characters that are kept of it
MAX_TRACEBACK_BYTES = 16 * 1024

_PACKAGE = Path(__file__).parents[2]
_OWN = tuple(f"{_PACKAGE / room}{os.sep}" for room in ("sdk", "node"))


def describe(error: BaseException) -> str:
    """Its type and text. The text is the word of a user's class: it may be endless, be no text, or
    raise anything."""
    name = type(error).__name__
    try:
        text = str(error)[:MAX_ERROR]
    except BaseException as inner:  # noqa: BLE001 - whatever it raises, it must not escape
        text = f"{name} (its text cannot be had: {type(inner).__name__})"
        return storable(text[:MAX_ERROR])
    return storable((f"{name}: {text}" if text else name)[:MAX_ERROR])


def traceback_of(error: BaseException) -> str | None:
    """Where it was raised, in lines of the user's own code and of what that calls; None where there
    is none of that. With the errors that it was raised from, and those of a group. Without local
    variables: those hold payloads, secrets and passwords."""
    frames = error.__traceback__
    while frames is not None and is_own(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    if frames is None:
        return None
    try:
        told = traceback.TracebackException(type(error), error, frames, compact=True)
        _leave_out_own(told)
        return bounded("".join(told.format()).rstrip())
    except BaseException:  # noqa: BLE001 - whatever the classes of a user's errors do
        return bounded(_without_texts(error, frames))


def _leave_out_own(told: traceback.TracebackException) -> None:
    """Take out the frames that lead from middleware to the handler, and likewise those of the
    errors that it was raised from."""
    waiting = [told]
    while waiting:
        one = waiting.pop()
        one.stack[:] = [frame for frame in one.stack if not is_own(frame.filename)]
        linked = (one.__cause__, one.__context__, *(one.exceptions or ()))
        waiting += [each for each in linked if each is not None]


def _without_texts(error: BaseException, frames: TracebackType) -> str:
    """Of an error whose text, or that of one before it, cannot be had."""
    lines = traceback.format_tb(frames)
    return f"Traceback (most recent call last):\n{''.join(lines)}{describe(error)}"


def bounded(text: str) -> str:
    """As PostgreSQL can hold it. Of one that is too long its middle is left out: it begins with
    where the code was entered, and ends with what happened."""
    stored = storable(text).encode()
    if len(stored) <= MAX_TRACEBACK_BYTES:
        return stored.decode()
    note = f"\n… {len(stored) - MAX_TRACEBACK_BYTES} bytes and more left out …\n".encode()
    head = MAX_TRACEBACK_BYTES // 4
    tail = MAX_TRACEBACK_BYTES - head - len(note)
    cut = stored[:head] + note + stored[-tail:]
    return cut.decode(errors="ignore")


def is_own(filename: str) -> bool:
    """Whether the file is of the code that calls handlers."""
    return filename.startswith(_OWN)
