"""Publishes outcomes to the brokers of feeds: at least once, and those of a task in their order."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from gnomon.model.insight.outcome_feed import (
    CONTENT_TYPE,
    FeedState,
    NotedOutcome,
    event_id,
    event_of,
)
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.text import storable
from gnomon.node.membership.lease import Lease
from gnomon.node.run.targets.queue import Broker, Message, NotPublished
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.observe.events import Observer
from gnomon.observe.node_events import OutcomesPublished
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.feeds.feed_notes import PostgresFeedNotes

EVERY_SECONDS = 0.5
_HOLD_SECONDS = 30.0
_CHUNK_SECONDS = 15.0  # shorter than the chore is held
_AT_ONCE = 500
_IN_FLIGHT = 64
_ROUNDS = 20  # of one feed; then it is another's turn


class FeedPublisher:
    """Publishes the feeds of one connection. One node at a time does; where two believe to, both
    publish the same, in the same order, and whoever is first takes it away."""

    def __init__(
        self,
        connection: str,
        notes: PostgresFeedNotes,
        publisher: QueuePublisher,
        chores: PostgresChores,
        lease: Lease,
        emit: Observer,
    ) -> None:
        self.chore = f"feeds:{connection}"
        self._connection = connection
        self._notes = notes
        self._publisher = publisher
        self._chores = chores
        self._lease = lease
        self._emit = emit

    async def run_once(self) -> int:
        """Gives how many outcomes it published; 0 where another node has the chore."""
        published = 0
        for feed in await self._notes.waiting(self._connection):
            for _ in range(_ROUNDS):
                if not await self._chores.hold(self.chore, self._lease.incarnation, _HOLD_SECONDS):
                    return published
                done, is_last = await self._publish_some(feed)
                published += done
                if is_last:
                    break
        return published

    async def _publish_some(self, feed: FeedState) -> tuple[int, bool]:
        """Publish what comes first; gives how many that were, and whether to leave it at that."""
        noted = await self._notes.first(feed, _AT_ONCE)
        if not noted:
            return 0, not await self._notes.close_gap(feed)
        chunk = _FeedChunk(feed, noted)
        try:
            target = QueueTarget(feed.feed.url)
            target.check()
            async with (
                asyncio.timeout(_CHUNK_SECONDS),
                self._publisher.broker_of(target, feed.feed.tenant_id) as broker,
            ):
                await chunk.publish(broker, target.topic)
        except TimeoutError:
            chunk.failed(f"not all was confirmed within {_CHUNK_SECONDS:g} s")
        except (ValueError, NotPublished) as error:
            chunk.failed(str(error))
        await self._notes.confirm(feed, chunk.confirmed, chunk.error)
        self._emit(OutcomesPublished(len(chunk.confirmed), failed=chunk.error is not None))
        is_last = len(noted) < _AT_ONCE and feed.gap_since is None
        return len(chunk.confirmed), is_last or chunk.error is not None


class _FeedChunk:
    """Outcomes of a feed that are published together: those of different tasks at the same time,
    those of one task one after the other."""

    def __init__(self, feed: FeedState, noted: Sequence[NotedOutcome]) -> None:
        self.confirmed: list[int] = []  # places
        self.error: str | None = None
        self._feed = feed
        self._unwell = False
        self._room = asyncio.Semaphore(_IN_FLIGHT)
        self._by_task: dict[object, list[NotedOutcome]] = defaultdict(list)
        for each in noted:
            self._by_task[each.task_id].append(each)

    def failed(self, error: str) -> None:
        self.error = self.error or storable(error[:2000])

    async def publish(self, broker: Broker, topic: str) -> None:
        async with asyncio.TaskGroup() as group:
            for noted in self._by_task.values():
                group.create_task(self._publish_task(broker, topic, noted))

    async def _publish_task(
        self, broker: Broker, topic: str, noted: Sequence[NotedOutcome]
    ) -> None:
        async with self._room:
            for each in noted:
                if self._unwell:
                    return
                try:
                    await broker.publish(topic, _message(each, self._feed.feed.name))
                except NotPublished as error:
                    self._unwell = self._unwell or error.unwell
                    self.failed(str(error))
                    return  # what the task did later must not be told first
                self.confirmed.append(each.place)


def _message(noted: NotedOutcome, feed: str) -> Message:
    key = None if noted.task_id is None else str(noted.task_id)
    return Message(event_id(noted), event_of(noted, feed), {"content-type": CONTENT_TYPE}, key)
