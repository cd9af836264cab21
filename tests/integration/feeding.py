"""What tests of feeds share."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from redis.exceptions import RedisError
from tests.brokers import ValkeyServer
from tests.integration.support import Connection

from gnomon.clock import SystemClock, new_id
from gnomon.model.insight.outcome_feed import FeedOutcome, OutcomeFeed
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds

ALL = tuple(FeedOutcome)


def feed(
    name: str = "results",
    *outcomes: FeedOutcome,
    types: Sequence[str] | None = None,
    topic: str | None = None,
    tenant: str = DEFAULT_TENANT,
) -> OutcomeFeed:
    return OutcomeFeed(
        tenant_id=tenant,
        name=name,
        url=f"queue://orders/{topic or name}",
        task_types=types,
        outcomes=outcomes or ALL,
    )


async def put(database: Database, wanted: OutcomeFeed) -> UUID:
    feed_id = new_id(SystemClock().now())
    await PostgresFeeds(database).put(wanted, feed_id)
    return feed_id


async def notes(connection: Connection) -> list[tuple[UUID, str, int, int]]:
    """Task, type, state and fence of what waits, in order."""
    rows = await connection.fetch(
        "SELECT task_id, task_type, state, fence FROM gnomon.feed_note ORDER BY place"
    )
    return [tuple(row) for row in rows]


def connections(server: ValkeyServer, **values: Any) -> dict[str, QueueConnection]:
    return {"orders": QueueConnection(**{"url": server.url, **values})}


def events(server: ValkeyServer, topic: str) -> list[dict[str, Any]]:
    """All that a stream has, the first of each id."""
    found: Any = server.client.xrange(topic)
    told = [json.loads(entry["payload"]) for _, entry in found]
    return list({each["id"]: each for each in reversed(told)}.values())[::-1]


async def events_now(server: ValkeyServer, topic: str) -> list[dict[str, Any]]:
    """As `events`; none while the server is away."""
    try:
        return await asyncio.to_thread(events, server, topic)
    except RedisError:
        return []
