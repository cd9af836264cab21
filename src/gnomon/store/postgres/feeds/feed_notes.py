"""Outcomes that wait for their feeds, as nodes publish and bound them."""

from collections.abc import Sequence

from gnomon.model.insight.outcome_feed import FeedState, NotedOutcome
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.feeds.feed_store import feed_state

_REMOVED_AT_ONCE = 10_000


class PostgresFeedNotes:
    """Reads notes, and takes away what is published."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self, connection: str) -> list[FeedState]:
        """Feeds of a connection that have something to publish."""
        rows = await self._database.fetch("waiting_feeds", f"queue://{connection}/")
        return [feed_state(row) for row in rows]

    async def first(self, feed: FeedState, most: int) -> list[NotedOutcome]:
        """The first that wait, in order; none where the feed was removed or goes elsewhere now."""
        rows = await self._database.fetch(
            "feed_notes", feed.feed.tenant_id, feed.id, feed.feed.url, most
        )
        return [NotedOutcome(**row) for row in rows]

    async def confirm(self, feed: FeedState, places: Sequence[int], error: str | None) -> None:
        """These are published; `error`: others could not be."""
        await self._database.execute(
            "confirm_notes", feed.feed.tenant_id, feed.id, list(places), error
        )

    async def close_gap(self, feed: FeedState) -> bool:
        """Go on with a feed for which nothing waits any more; gives whether it had a gap, which
        is noted now."""
        done = await self._database.execute("close_gap", feed.feed.tenant_id, feed.id)
        return _number(done) > 0

    async def bound(self, most: int) -> int:
        """Note no more for feeds for which so many wait; gives how many they are."""
        return _number(await self._database.execute("bound_feeds", most))

    async def tidy(self) -> bool:
        """Remove what is left of removed feeds and tenants; gives whether there may be more."""
        await self._database.execute("leave_feeds")
        removed = _number(await self._database.execute("remove_feed_notes", _REMOVED_AT_ONCE))
        if removed < _REMOVED_AT_ONCE:
            await self._database.execute("remove_feeds")
        return removed >= _REMOVED_AT_ONCE


def _number(done: str) -> int:
    return int(done.rpartition(" ")[2])
