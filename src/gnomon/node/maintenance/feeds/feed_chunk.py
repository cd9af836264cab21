"""Publishes some outcomes of a feed."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import msgspec
import structlog

from gnomon.model.insight.outcome_feed import (
    CONTENT_TYPE,
    FeedState,
    NotedOutcome,
    event_id,
    event_of,
    shortened,
)
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.text import storable
from gnomon.node.run.targets.queue import Broker, Message, NotPublished
from gnomon.node.run.targets.queue.publisher import QueuePublisher

log = structlog.get_logger("gnomon.node.maintenance")

_SECONDS = 15.0  # shorter than the chore is held
_UNTAKEN = "the broker of the connection did not confirm it: the log of the nodes says why"


class Published(msgspec.Struct):
    """What came of it."""

    places: list[int] = msgspec.field(default_factory=list)
    error: str | None = None  # as the tenant may read it
    refused: bool = False  # by the topic, and so by whichever node publishes to it


class FeedChunk:
    """Outcomes that are published together: those of different tasks at the same time, those of one
    task one after the other. The first that the broker does not take is the last that is tried."""

    def __init__(self, feed: FeedState, noted: Sequence[NotedOutcome], in_flight: int) -> None:
        self._feed = feed
        self._log = log.bind(feed=feed.feed.name, tenant=feed.feed.tenant_id)
        self._done = Published()
        self._room = asyncio.Semaphore(in_flight)
        self._by_task: dict[object, list[NotedOutcome]] = defaultdict(list)
        for each in noted:
            self._by_task[each.task_id].append(each)

    async def publish(self, publisher: QueuePublisher) -> Published:
        """Whatever goes wrong is this feed's, and no other's."""
        try:
            target = QueueTarget(self._feed.feed.url)
            target.check()
            async with (
                asyncio.timeout(_SECONDS),
                publisher.broker_of(target, self._feed.feed.tenant_id) as broker,
                asyncio.TaskGroup() as group,
            ):
                for noted in self._by_task.values():
                    group.create_task(self._publish_task(broker, target.topic, noted))
        except ValueError as error:
            self._failed(str(error))
        except (NotPublished, TimeoutError) as error:
            self._log.warning("a feed cannot publish", error=str(error) or "no answer in time")
            self._failed(_UNTAKEN)
        except Exception:  # noqa: BLE001 - one feed must not hold up the others
            self._log.exception("a feed cannot publish")
            self._failed(_UNTAKEN)
        return self._done

    async def _publish_task(
        self, broker: Broker, topic: str, noted: Sequence[NotedOutcome]
    ) -> None:
        async with self._room:
            for each in noted:
                if self._done.error is not None:
                    return
                try:
                    await self._publish_one(broker, topic, each)
                except NotPublished as error:
                    self._not_published(error)
                    return  # what the task did later must not be told first
                self._done.places.append(each.place)

    async def _publish_one(self, broker: Broker, topic: str, noted: NotedOutcome) -> None:
        """An event that is refused for itself is told again without what may be large in it."""
        try:
            await broker.publish(topic, _message(noted, self._feed))
        except NotPublished as error:
            if not error.wrong:
                raise
            self._log.info("an outcome is told shortened", id=event_id(noted), error=str(error))
            await broker.publish(topic, _message(shortened(noted), self._feed))

    def _not_published(self, error: NotPublished) -> None:
        if self._done.error is None:
            self._log.warning("a feed cannot publish", error=str(error))
        self._failed(_UNTAKEN if error.unwell else str(error))
        self._done.refused = self._done.refused or not error.unwell

    def _failed(self, error: str) -> None:
        self._done.error = self._done.error or storable(error[:2000])


def _message(noted: NotedOutcome, feed: FeedState) -> Message:
    """The key of a gap is the feed's: topics that are compacted want one."""
    key = str(noted.task_id or feed.id)
    body = event_of(noted, feed.feed.name)
    return Message(event_id(noted), body, {"content-type": CONTENT_TYPE}, key)
