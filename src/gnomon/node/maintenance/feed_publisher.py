"""Publishes outcomes to the brokers of feeds: at least once, and those of a task in their order."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from gnomon.clock import Clock
from gnomon.model.insight.outcome_feed import FeedState
from gnomon.node.maintenance.feed_chore import FeedChore
from gnomon.node.maintenance.feed_chunk import FeedChunk
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.observe.events import Observer
from gnomon.observe.node_events import OutcomesPublished
from gnomon.store.postgres.feeds.feed_notes import PostgresFeedNotes

EVERY_SECONDS = 0.5
_TURN_SECONDS = 2.0  # of one feed; then it is another's turn
_SIDE_BY_SIDE = 4  # feeds
_AT_ONCE = 500
_IN_FLIGHT = 64
_TRIED_AT_ONCE = 20  # of a feed that failed
_TRIED_IN_FLIGHT = 4
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


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
        return await self._publish_all(well, _AT_ONCE, in_flight)

    async def retry_once(self) -> int:
        """As `run_once`, for the feeds that failed and whose pause is over."""
        now = self._clock.monotonic()
        due = {key: pause.until for key, pause in self._pauses.items() if pause.until <= now}
        if not due or not await self._chore.hold():
            return 0
        waiting = await self._notes.waiting(self._chore.connection)
        failed = [feed for feed in waiting if feed.id in due]
        failed.sort(key=lambda feed: due[feed.id])
        return await self._publish_all(failed, _TRIED_AT_ONCE, _TRIED_IN_FLIGHT)

    async def _publish_all(self, feeds: Sequence[FeedState], most: int, in_flight: int) -> int:
        room = asyncio.Semaphore(_SIDE_BY_SIDE)

        async def turn(feed: FeedState) -> int:
            async with room:
                return await self._turn(feed, most, in_flight)

        done = await asyncio.gather(*map(turn, feeds), return_exceptions=True)
        published = 0
        for each in done:
            if isinstance(each, BaseException):
                raise each
            published += each
        return published

    async def _turn(self, feed: FeedState, most: int, in_flight: int) -> int:
        published = 0
        end = self._clock.monotonic() + _TURN_SECONDS
        while await self._chore.hold():
            done, is_last = await self._publish_some(feed, most, in_flight)
            published += done
            if is_last or self._clock.monotonic() >= end:
                break
        return published

    async def _publish_some(self, feed: FeedState, most: int, in_flight: int) -> tuple[int, bool]:
        """Publish what comes first; gives how many that were, and whether to leave it at that."""
        noted = await self._notes.first(feed, most)
        if not noted:
            return 0, not await self._notes.close_gap(feed)
        done = await FeedChunk(feed, noted, in_flight).publish(self._publisher)
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
        is_last = len(noted) < most and feed.gap_since is None
        return len(done.places), is_last or done.error is not None

    def _pause(self, feed: FeedState) -> None:
        before = self._pauses.get(feed.id)
        seconds = _FIRST_PAUSE if before is None else min(2 * before.seconds, _LONGEST_PAUSE)
        self._pauses[feed.id] = _Pause(seconds, self._clock.monotonic() + seconds)
