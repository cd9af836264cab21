"""The feeds of tenants, as the API keeps and shows them."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.feed_errors import FeedNotFound, TooManyFeeds
from gnomon.model.insight.outcome_feed import (
    MOST_FEEDS,
    OUTCOMES,
    STATES,
    FeedState,
    OutcomeFeed,
)
from gnomon.model.tasks.lifecycle import State
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

_MOST_COUNTED = 10_000


class PostgresFeeds:
    """Stores the feeds of tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str, name: str | None = None) -> Sequence[FeedState]:
        """All of a tenant by name, or the one of this name."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("list_feeds"), tenant_id, name, _MOST_COUNTED)
        return [_shown(row) for row in rows]

    async def get(self, tenant_id: str, name: str) -> FeedState:
        """Raises FeedNotFound."""
        found = await self.list(tenant_id, name)
        if not found:
            raise FeedNotFound(name)
        return found[0]

    async def put(self, feed: OutcomeFeed, feed_id: UUID) -> bool:
        """Create one, by this id, or replace it; gives whether it is new. Raises TooManyFeeds."""
        async with self._database.scoped(feed.tenant_id) as connection:
            # Those who add to the same tenant count one after the other.
            await connection.execute(query("lock_feeds"), feed.tenant_id)
            row = await connection.fetchrow(
                query("put_feed"),
                feed.tenant_id,
                feed_id,
                feed.name,
                feed.url,
                feed.task_types,
                [int(STATES[outcome]) for outcome in feed.outcomes],
                MOST_FEEDS,
            )
        if row is None:
            raise TooManyFeeds(MOST_FEEDS)
        created: bool = row["created"]
        return created

    async def delete(self, tenant_id: str, name: str) -> None:
        """Remove one, with what waits for it. Raises FeedNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("delete_feed"), tenant_id, name)
        if row is None:
            raise FeedNotFound(name)


def feed_state(row: asyncpg.Record) -> FeedState:
    """Without what waits for it."""
    feed = OutcomeFeed(
        tenant_id=row["tenant_id"],
        name=row["name"],
        url=row["url"],
        task_types=row["task_types"],
        outcomes=[OUTCOMES[State(each)] for each in row["states"]],
    )
    return FeedState(
        feed=feed,
        id=row["id"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        gap_since=row["gap_since"],
        failing_since=row["failing_since"],
        last_error=row["last_error"],
        published=row["published"],
        published_at=row["published_at"],
    )


def _shown(row: asyncpg.Record) -> FeedState:
    return msgspec.structs.replace(
        feed_state(row),
        backlog=row["backlog"],
        backlog_capped=row["backlog"] >= _MOST_COUNTED,
        waiting_since=row["waiting_since"],
    )
