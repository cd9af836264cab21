"""Waiting for something that other processes do, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


async def eventually(predicate: Callable[[], Awaitable[T | None]], timeout: float = 30.0) -> T:
    """The first true value of `predicate`, or a failure that shows the last one."""
    deadline = time.monotonic() + timeout
    while not (value := await predicate()):
        assert time.monotonic() < deadline, f"still {value!r} after {timeout:g} s"
        await asyncio.sleep(POLL_SECONDS)
    return value


def eventually_sync(predicate: Callable[[], T | None], timeout: float = 30.0) -> T:
    """The same, without a loop."""
    deadline = time.monotonic() + timeout
    while not (value := predicate()):
        assert time.monotonic() < deadline, f"still {value!r} after {timeout:g} s"
        time.sleep(POLL_SECONDS)
    return value
