"""A clock that stands still until it is set: time as a hand-cranked node sees it.

PostgreSQL's clock is held at the same moment (`turned_clock.hold`), so that nobody is ahead of
anybody. Whoever sleeps on this clock wakes when it is set to that moment or past it, however little
real time that took.
"""

import asyncio
import heapq
from datetime import UTC, datetime
from itertools import count

from gnomon.clock import EPOCH, from_micros, to_micros

_MILLISECOND = 1000  # microseconds: what the wheel counts in


def whole_milliseconds(moment: datetime) -> datetime:
    """The moment, rounded up to what the wheel counts in: never early."""
    return from_micros(-(-to_micros(moment) // _MILLISECOND) * _MILLISECOND)


class VirtualClock:
    """`Clock`, set by hand. It never goes back."""

    def __init__(self, start: datetime) -> None:
        self._now = whole_milliseconds(start.astimezone(UTC))
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._turns = count()

    def now(self) -> datetime:
        return self._now

    def seconds(self) -> float:
        return self._now.timestamp()

    def monotonic(self) -> float:
        return (self._now - EPOCH).total_seconds()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)  # noqa: TID251 - this is a clock
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.monotonic() + seconds, next(self._turns), woken))
        await woken

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        if event.is_set() or seconds is None:
            return await event.wait()
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(event.wait()), group.create_task(self.sleep(seconds))]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
        return event.is_set()

    def offset(self) -> float:
        return 0.0

    def observe(self, database_now: datetime, asked_at: float) -> None:
        """Nothing to correct: the database's clock is held at the same moment."""

    def set(self, moment: datetime) -> None:
        """Go on to a moment, and wake whoever sleeps until then."""
        self._now = max(self._now, moment)
        now = self.monotonic()
        while self._sleepers and self._sleepers[0][0] <= now:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
