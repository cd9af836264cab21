"""Follows the log of events, for all streams of a process by one look at a time.

A stream costs no statement of its own, unless it begins, or falls, further back than what is kept
in memory. While nobody follows, nothing is read.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from gnomon.clock import Clock
from gnomon.model.errors import EventsGone
from gnomon.store.ports.insight.events import EventRecord
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.usecases.live.seats import StreamSeats

PAUSE_SECONDS = 0.25
AT_ONCE = 200
MOST_KEPT = 1_000  # events, in memory
_MOST_LOOKS = 20  # one after the other; followers are told in between


class EventFeed:
    """The newest events of everybody, while `look` and `rest` take turns."""

    def __init__(self, log: PostgresEventLog, clock: Clock, seats: StreamSeats) -> None:
        self._log = log
        self._clock = clock
        self._seats = seats
        self._followers: dict[EventFollower, None] = {}
        self._followed = asyncio.Event()
        self._kept: deque[EventRecord] = deque()
        self._after: int | None = None  # all after this number, up to the next one, are kept
        self.reached = 0
        self.closed = asyncio.Event()

    async def begin(self, after: int | None, tenant_id: str) -> int:
        """Where a stream begins: after the given number, or now. Raises EventsGone."""
        if after is None:
            return (await self._log.span()).last
        await self._log.read(after, 1, tenant_id)
        return after

    @contextmanager
    def following(
        self, one: Hashable | None, tenant_id: str, after: int
    ) -> Iterator["EventFollower"]:
        """A stream of a tenant's events, or of the installation's. Raises Overloaded,
        ViewersFull."""
        with self._seats.taken(one, tenant_id):
            follower = EventFollower(self, tenant_id, after)
            self._followers[follower] = None
            self._followed.set()
            try:
                yield follower
            finally:
                del self._followers[follower]
                if not self._followers:
                    self._followed.clear()
                    self._forget()

    async def look(self) -> None:
        """Reads what is new. Raises StoreError."""
        for _ in range(_MOST_LOOKS):
            if not self._followers:
                return
            if self._after is None:
                self._after = self.reached = (await self._log.span()).last
                self._tell()  # of what has happened since they began
            try:
                page = await self._log.read(self.reached, AT_ONCE)
            except EventsGone:
                # The database was set back. Each stream finds out by itself, and ends.
                self._forget()
                return
            if self._after is None:
                continue  # all have left meanwhile: to keep this would leave a gap behind it
            self._keep(page.events)
            if page.reached > self.reached:
                self.reached = page.reached
                self._tell()
            if len(page.events) < AT_ONCE:
                return

    async def rest(self) -> None:
        """Waits until the next look is due: a pause, and somebody who follows."""
        await self._clock.sleep(PAUSE_SECONDS)
        await self._followed.wait()

    def close(self) -> None:
        """Ends every stream, and takes no more."""
        self.closed.set()
        self._tell()

    async def after(self, position: int, tenant_id: str) -> tuple[Sequence[EventRecord], int]:
        """The tenant's next events after a number, and the number that was reached. Raises
        EventsGone, StoreError."""
        if self._after is None or position < self._after:
            page = await self._log.read(position, AT_ONCE, tenant_id)
            return page.events, page.reached
        first = bisect_right(self._kept, position, key=_number)
        kept = islice(self._kept, first, None)
        return [e for e in kept if e.tenant_id == tenant_id], max(position, self.reached)

    def _tell(self) -> None:
        for follower in self._followers:
            follower.told.set()

    def _keep(self, events: Sequence[EventRecord]) -> None:
        self._kept.extend(events)
        while len(self._kept) > MOST_KEPT:
            self._after = _number(self._kept.popleft())

    def _forget(self) -> None:
        self._kept.clear()
        self._after = None


class EventFollower:
    """One stream. `told` is set when there may be something to read."""

    def __init__(self, feed: EventFeed, tenant_id: str, position: int) -> None:
        self._feed = feed
        self._tenant_id = tenant_id
        self.position = position
        self.told = asyncio.Event()
        self.told.set()

    async def take(self) -> Sequence[EventRecord]:
        """The next events; some may be left, and then `told` stays set. Raises EventsGone,
        StoreError."""
        self.told.clear()
        events, reached = await self._feed.after(self.position, self._tenant_id)
        if reached > self.position:
            self.position = reached
            self.told.set()
        return events


def _number(event: EventRecord) -> int:
    assert event.number is not None, "these are found by their numbers"
    return event.number
