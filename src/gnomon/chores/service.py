"""A chore with its pace: what is done, and what is waited for before it is done again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from gnomon.clock import Clock

Once = Callable[[], Awaitable[object]]


class Service(msgspec.Struct, frozen=True):
    """Does `once`, waits, and does it again, for as long as the process lives."""

    name: str
    once: Once
    wait: Once | None = None  # None: `once` itself waits for something to do
    at_end: bool = False  # once more when the process ends
    yields: bool = False  # to others, while PostgreSQL has more to do than it can
    begins_after: float = 0.0  # seconds


def every(
    name: str,
    once: Once,
    clock: Clock,
    seconds: float,
    *,
    at_end: bool = False,
    yields: bool = False,
) -> Service:
    """Does it again after so many seconds."""
    return Service(name, once, partial(clock.sleep, seconds), at_end, yields)


def whenever(
    name: str,
    once: Once,
    clock: Clock,
    event: asyncio.Event,
    seconds: float | None,
    rest: float = 0.0,
    *,
    yields: bool = False,
) -> Service:
    """Does it again when the event is set, or after so many seconds; but it rests first."""

    async def wait() -> None:
        if rest:
            await clock.sleep(rest)
        await clock.wait(event, seconds)
        event.clear()

    return Service(name, once, wait, yields=yields)


def one_by_one(services: Sequence[Service], seconds: float) -> list[Service]:
    """The same, but they begin one after the other, spread over so many seconds."""
    pause = seconds / max(1, len(services))
    return [
        msgspec.structs.replace(each, begins_after=place * pause)
        for place, each in enumerate(services, start=1)
    ]
