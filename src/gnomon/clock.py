"""The only reader of time, and the only source of chance.

The database decides what is due and who is alive. Python keeps an estimate of the database's
time, never ahead of it, and uses it only to decide how long to sleep and what to stamp on ids.
"""

import asyncio
import random
import secrets
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from gnomon.model.ids import uuid7, uuid7_number

Chance = Callable[[], float]  # uniform in [0, 1)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Whole microseconds since the epoch, exactly (a float would round)."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


class Clock(Protocol):
    """Time as the engine sees it."""

    def now(self) -> datetime:
        """The database's time, estimated: never ahead of it, behind it by a round trip at most."""

    def seconds(self) -> float:
        """The same in seconds since the epoch, where a datetime for every task costs too much."""

    def monotonic(self) -> float:
        """Seconds that only grow, for measuring how long something took."""

    def offset(self) -> float:
        """Seconds that the database's time is ahead of this machine's, as far as is known."""

    async def sleep(self, seconds: float) -> None:
        """Wait. Tests advance it by hand."""

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Wait for an event, up to a timeout. Returns whether the event came."""

    def observe(self, database_now: datetime, asked_at: float) -> None:
        """Correct the estimate by what the database's clock said in its answer to a question asked
        at `asked_at` (monotonic)."""


# Where the system has it, a clock that also counts the time that a machine slept: a lease must
# not outlive a nap.
_TICKING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


_monotonic = partial(time.clock_gettime, _TICKING)  # asked for several times a task


class SystemClock:
    """The machine's clock, corrected to the database's."""

    # How fast two clocks may part; an estimate is lowered by this much until it is confirmed.
    _DRIFT = 1e-4

    def __init__(self, monotonic: Callable[[], float] = _monotonic) -> None:
        self.monotonic = monotonic
        self._offset = time.time() - monotonic()
        self._observed_at: float | None = None
        self._rate, self._base = 1.0, self._offset  # the estimate is a line, until the next answer

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds(), UTC)

    def seconds(self) -> float:
        return self.monotonic() * self._rate + self._base

    def offset(self) -> float:
        return self.seconds() - time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        if event.is_set():
            return True
        try:
            async with asyncio.timeout(seconds):
                return await event.wait()
        except TimeoutError:
            return False

    def observe(self, database_now: datetime, asked_at: float) -> None:
        # The database read its clock between the question and now. So its clock is ahead of ours
        # by `least` at the least and `most` at the most. The best estimate that is never ahead is
        # the highest `least` seen, lowered by drift; one above `most` says that a clock was set.
        answered_at = self.monotonic()
        database = database_now.timestamp()
        least, most = database - answered_at, database - asked_at
        if self._observed_at is None:
            self._offset = least
        else:
            aged = self._offset - (answered_at - self._observed_at) * self._DRIFT
            self._offset = max(least, aged) if aged <= most else least
        self._observed_at = answered_at
        self._rate = 1.0 - self._DRIFT
        self._base = self._offset + answered_at * self._DRIFT


def chance() -> float:
    return random.random()  # noqa: S311 - spreads load, guards nothing


def new_id(now: datetime) -> uuid.UUID:
    """A task's id: unique, and ordered by `now`."""
    return uuid7(to_micros(now) // 1000, random.getrandbits(74))


def new_id_number(now: datetime) -> int:
    """The same as a number."""
    return uuid7_number(to_micros(now) // 1000, random.getrandbits(74))


def new_id_numbers(now: datetime, count: int) -> list[int]:
    """Such ids of one moment, in their order."""
    first = uuid7_number(to_micros(now) // 1000, 0)
    return [
        first + (turn >> 12 << 80) + ((turn & 0xFFF) << 64) + random.getrandbits(62)
        for turn in range(count)
    ]


def new_id_in(shard: int, now: datetime, turn: int) -> uuid.UUID:
    """An id in a given shard; those of one moment are ordered by their turn."""
    entropy = random.getrandbits(62) & ~0xFF | shard
    return uuid7(to_micros(now) // 1000 + (turn >> 12), (turn & 0xFFF) << 62 | entropy)


def new_incarnation() -> uuid.UUID:
    """The id of one incarnation of a node, never used again."""
    return uuid.uuid4()


def new_secret(size: int) -> bytes:
    """Bytes that nobody can guess."""
    return secrets.token_bytes(size)
