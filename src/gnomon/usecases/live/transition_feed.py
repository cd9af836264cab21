"""Follows transitions of tasks, for all streams of a process by one statement at a time.

Streams that have come equally far are read for once. While nobody follows, nothing is read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from gnomon.clock import Clock
from gnomon.model.insight.transition import StreamedTransition, TransitionPlace, TransitionsGone
from gnomon.store.postgres.events.transition_log import PostgresTransitionLog, StreamedTransitions
from gnomon.usecases.live.seats import StreamSeats

PAUSE_SECONDS = 0.25
AT_ONCE = 200
BEGINNING = TransitionPlace(0)


class TransitionFeed:
    """New transitions of the tenants that somebody follows, while `look` and `rest` take turns."""

    def __init__(self, log: PostgresTransitionLog, clock: Clock, seats: StreamSeats) -> None:
        self._log = log
        self._clock = clock
        self._seats = seats
        self._followers: dict[TransitionFollower, None] = {}
        self._followed = asyncio.Event()
        self.hungry = asyncio.Event()  # a follower has taken a full page
        self.closed = asyncio.Event()

    async def begin(self, after: TransitionPlace | None) -> TransitionPlace:
        """Where a stream begins: after the given place, or now; BEGINNING: with the first that is
        kept. Raises TransitionsGone."""
        span = await self._log.span()
        if after is None:
            return TransitionPlace(span.horizon)
        if after == BEGINNING:
            return TransitionPlace(span.forgotten + 1 if span.forgotten else 0)
        if 0 < span.forgotten >= after.xact or after.xact > span.ahead:
            raise TransitionsGone(after)
        return after

    @contextmanager
    def following(
        self, one: Hashable | None, tenant_id: str, after: TransitionPlace
    ) -> Iterator["TransitionFollower"]:
        """A stream of a tenant's transitions. Raises Overloaded, ViewersFull."""
        with self._seats.taken(one, tenant_id):
            follower = TransitionFollower(self, tenant_id, after)
            self._followers[follower] = None
            self._followed.set()
            self.hungry.set()
            try:
                yield follower
            finally:
                del self._followers[follower]
                if not self._followers:
                    self._followed.clear()

    async def look(self) -> None:
        """Reads what is new for those who have taken all that was read before. Raises
        StoreError."""
        self.hungry.clear()
        waiting = defaultdict(list)
        for follower in self._followers:
            if follower.waits:
                waiting[follower.tenant_id, follower.position].append(follower)
        if not waiting:
            return
        pages = await self._log.read(list(waiting), AT_ONCE)
        for followers, page in zip(waiting.values(), pages, strict=True):
            for follower in followers:
                follower.give(page)

    async def rest(self) -> None:
        """Waits until the next look is due: a pause, and somebody who follows."""
        await self._clock.wait(self.hungry, PAUSE_SECONDS)
        await self._followed.wait()

    def close(self) -> None:
        """Ends every stream, and takes no more."""
        self.closed.set()
        for follower in self._followers:
            follower.told.set()


class TransitionFollower:
    """One stream. `told` is set when there may be something to read."""

    def __init__(self, feed: TransitionFeed, tenant_id: str, position: TransitionPlace) -> None:
        self._feed = feed
        self._page: StreamedTransitions | None = None  # that was read, and not taken yet
        self.tenant_id = tenant_id
        self.position = position  # all up to here were taken
        self.told = asyncio.Event()

    @property
    def waits(self) -> bool:
        return self._page is None

    def give(self, page: StreamedTransitions) -> None:
        """What was read for it."""
        if page.reached is not None and not page.transitions:
            self.position = page.reached  # nothing lies between
        else:
            self._page = page
            self.told.set()

    async def take(self) -> Sequence[StreamedTransition]:
        """The next transitions. Raises TransitionsGone."""
        self.told.clear()
        page, self._page = self._page, None
        if page is None:
            return ()
        if page.reached is None:
            raise TransitionsGone(self.position)
        self.position = page.reached
        if len(page.transitions) == AT_ONCE:
            self._feed.hungry.set()
        return page.transitions
