"""Waiting for something that other processes do, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST, _LONGEST = 0.02, 0.1  # seconds between two looks


def _pause(waited: float) -> float:
    """What takes long is looked at less often: looks of many tests at once use up the processor
    that what they wait for needs."""
    return min(_LONGEST, max(_SHORTEST, waited / 20))


async def eventually(predicate: Callable[[], Awaitable[T | None]], timeout: float = 30.0) -> T:
    """The first true value of `predicate`, or a failure that shows the last one."""
    began = time.monotonic()
    while not (value := await predicate()):
        waited = time.monotonic() - began
        assert waited < timeout, f"still {value!r} after {timeout:g} s"
        await asyncio.sleep(_pause(waited))
    return value


def eventually_sync(predicate: Callable[[], T | None], timeout: float = 30.0) -> T:
    """The same, without a loop."""
    began = time.monotonic()
    while not (value := predicate()):
        waited = time.monotonic() - began
        assert waited < timeout, f"still {value!r} after {timeout:g} s"
        time.sleep(_pause(waited))
    return value
