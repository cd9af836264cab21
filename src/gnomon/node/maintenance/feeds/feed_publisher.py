"""Publishes outcomes to the brokers of feeds: at least once, and those of a task in their order."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from gnomon.clock import Clock
from gnomon.model.insight.outcome_feed import FeedState
from gnomon.node.maintenance.feeds.feed_chore import FeedChore
from gnomon.node.maintenance.feeds.feed_chunk import FeedChunk
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.observe.events import Observer
from gnomon.observe.node_events import OutcomesPublished
from gnomon.store.postgres.feeds.feed_notes import PostgresFeedNotes

EVERY_SECONDS = 0.5
_SIDE_BY_SIDE = 4  # feeds
_IN_FLIGHT = 64  # of all of them
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


class _Turn(NamedTuple):
    """How much of a feed is published before it is another's turn."""

    at_once: int
    in_flight: int
    seconds: float


# One chunk: then it is among the others again, and nobody else publishes it meanwhile.
_TRIAL = _Turn(at_once=20, in_flight=4, seconds=0.0)


class _Pause(NamedTuple):
    """Of a feed that failed: it doubles from one failure to the next."""

    seconds: float
    until: float


class FeedPublisher:
    """Publishes the feeds of one connection. One node at a time does; where two believe to, both
    publish the same, in the same order, and whoever is first takes it away. Feeds that failed are
    tried apart from the others, so that they hold nobody up."""

    def __init__(
        self,
        chore: FeedChore,
        notes: PostgresFeedNotes,
        publisher: QueuePublisher,
        clock: Clock,
        emit: Observer,
    ) -> None:
        self._chore = chore
        self._notes = notes
        self._publisher = publisher
        self._clock = clock
        self._emit = emit
        self._pauses: dict[UUID, _Pause] = {}

    async def run_once(self) -> int:
        """Gives how many outcomes it published; 0 where another node has the chore."""
        if not await self._chore.hold():
            return 0
        waiting = await self._notes.waiting(self._chore.connection)
        present = {feed.id for feed in waiting}
        self._pauses = {key: each for key, each in self._pauses.items() if key in present}
        well = [feed for feed in waiting if feed.id not in self._pauses]
        in_flight = _IN_FLIGHT // max(1, min(len(well), _SIDE_BY_SIDE))
        return await self._publish_all(well, _Turn(500, in_flight, 2.0))

    async def retry_once(self) -> int:
        """As `run_once`, for the feeds that failed and whose pause is over."""
        now = self._clock.monotonic()
        due = {key: pause.until for key, pause in self._pauses.items() if pause.until <= now}
        if not due or not await self._chore.hold():
            return 0
        waiting = await self._notes.waiting(self._chore.connection)
        failed = [feed for feed in waiting if feed.id in due]
        failed.sort(key=lambda feed: due[feed.id])
        return await self._publish_all(failed, _TRIAL)

    async def _publish_all(self, feeds: Sequence[FeedState], turn: _Turn) -> int:
        room = asyncio.Semaphore(_SIDE_BY_SIDE)

        async def publish(feed: FeedState) -> int:
            async with room:
                return await self._publish_feed(feed, turn)

        done = await asyncio.gather(*map(publish, feeds), return_exceptions=True)
        published = 0
        for each in done:
            if isinstance(each, BaseException):
                raise each
            published += each
        return published

    async def _publish_feed(self, feed: FeedState, turn: _Turn) -> int:
        published = 0
        end = self._clock.monotonic() + turn.seconds
        while await self._chore.hold():
            done, is_last = await self._publish_some(feed, turn)
            published += done
            if is_last or self._clock.monotonic() >= end:
                break
        return published

    async def _publish_some(self, feed: FeedState, turn: _Turn) -> tuple[int, bool]:
        """Publish what comes first; gives how many that were, and whether to leave it at that."""
        noted = await self._notes.first(feed, turn.at_once)
        if not noted:
            return 0, not await self._notes.close_gap(feed)
        done = await FeedChunk(feed, noted, turn.in_flight).publish(self._publisher)
        await self._notes.confirm(feed, done.places, done.error)
        self._emit(OutcomesPublished(len(done.places), failed=done.error is not None))
        if done.places:
            self._chore.published()
        if done.error is None:
            self._pauses.pop(feed.id, None)
        else:
            self._pause(feed)
            if not done.refused:
                await self._chore.failed()
        is_last = len(noted) < turn.at_once and feed.gap_since is None
        return len(done.places), is_last or done.error is not None

    def _pause(self, feed: FeedState) -> None:
        before = self._pauses.get(feed.id)
        seconds = _FIRST_PAUSE if before is None else min(2 * before.seconds, _LONGEST_PAUSE)
        self._pauses[feed.id] = _Pause(seconds, self._clock.monotonic() + seconds)
