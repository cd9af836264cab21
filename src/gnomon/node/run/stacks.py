"""Where a handler is that did not end: the lines that it waits or works at."""

import asyncio
import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import structlog

from gnomon.sdk.executing.failure import bounded, is_own

log = structlog.get_logger("gnomon.node.run")

_DEEPEST = 100  # frames of one stack
_ENTERED = "Where it was when it was told to stop (most recent call last):\n"


class Interrupted(asyncio.CancelledError):
    """The wait for a handler was cancelled, which was at `where`."""

    def __init__(self, where: str | None) -> None:
        super().__init__()
        self.where = where


def of_coroutine(coroutine: Any) -> str | None:
    """The stack of a coroutine that waits, down to what it waits for. That may be an object of the
    user's, which answers as it likes; whoever asks is about to stop the handler, and must."""
    try:
        return _told(list(_awaiting(coroutine)))
    except Exception:
        log.exception("the stack of a handler cannot be told")
        return None


def of_thread(ident: int | None) -> str | None:
    """The stack of a thread that works."""
    if ident is None:
        return None
    frame = sys._current_frames().get(ident)
    frames: list[FrameType] = []
    while frame is not None and len(frames) < _DEEPEST:
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    return _told(frames)


def _awaiting(coroutine: Any) -> Iterator[FrameType]:
    for _ in range(_DEEPEST):
        for prefix, below in (("cr", "await"), ("gi", "yieldfrom"), ("ag", "await")):
            frame = getattr(coroutine, f"{prefix}_frame", None)
            if isinstance(frame, FrameType):
                yield frame
                coroutine = getattr(coroutine, f"{prefix}_{below}")
                break
        else:
            return  # a future, or whatever else is no code


def _told(frames: list[FrameType]) -> str | None:
    """As text, from the first line of the handler's own code on; None where there is none. Without
    the lines that lead from middleware to the handler."""
    while frames and _leads_to_handler(frames[0].f_code.co_filename):
        del frames[0]
    frames = [frame for frame in frames if not is_own(frame.f_code.co_filename)]
    if not frames:
        return None
    lines = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format()
    return bounded(_ENTERED + "".join(lines).rstrip())


def _leads_to_handler(filename: str) -> bool:
    return is_own(filename) or filename == _THREADING


_THREADING = sys.modules["threading"].__file__ or ""
