"""Looks over the whole installation: what waits and runs, and how the database does.

Every count is capped, and every statement given up after a while: looking must not cost more than
what it is good for. What could not be found out is left out.
"""

from collections import defaultdict
from collections.abc import Sequence

from gnomon.model.errors import StoreError
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.insight.overview import InstallationOverview
from gnomon.model.tasks.priority import Lane
from gnomon.store.postgres.database import Database, statements_within
from gnomon.store.postgres.retention import partitions
from gnomon.store.postgres.rows import ANY_LANE, LANES

MOST = 10_000  # tasks or batches of a state
_MOST_OF_SHARD = 100  # due tasks; 25 600 in all
_LATER_OF_SHARD = 40
_WITHIN_SECONDS = 2.0


class PostgresOverview:
    """Asks the database, one question after the other."""

    def __init__(self, database: Database, chores: Sequence[str]) -> None:
        self._database = database
        self._chores = list(chores)  # that some node should hold at any time

    async def look(self) -> InstallationOverview:
        """Raises StoreError where not even the time is told."""
        now = await self._now()
        found = InstallationOverview(at=now)
        for part in (
            self._due, self._later, self._running, self._dead, self._limiters, self._server,
            self._partitions, self._unheld, self._batches, self._feeds,
        ):  # fmt: skip
            try:
                with statements_within(_WITHIN_SECONDS):
                    await part(found)
            except StoreError as error:
                found.missing[part.__name__.removeprefix("_")] = error
        return found

    async def _now(self) -> float:
        async with self._database.connection() as connection:
            now = await connection.fetchval("SELECT gnomon.now()")
        return float(now.timestamp())

    async def _due(self, found: InstallationOverview) -> None:
        rows = await self._database.fetch("overview_due", _MOST_OF_SHARD)
        by_shard: defaultdict[int, int] = defaultdict(int)
        oldest = dict.fromkeys(Lane, 0.0)
        for shard, lane_number, tasks, seconds in rows:
            lane = LANES.get(lane_number, ANY_LANE)
            by_shard[shard] += tasks
            oldest[lane] = max(oldest[lane], seconds)
        ready = sum(by_shard.values())
        found.ready, found.oldest_due = ready, oldest
        found.hottest_shard = max(by_shard.values()) * SHARDS / ready if ready else 0.0

    async def _later(self, found: InstallationOverview) -> None:
        found.scheduled = await self._count("overview_later", _LATER_OF_SHARD)

    async def _running(self, found: InstallationOverview) -> None:
        found.running = await self._count("overview_running", MOST)

    async def _dead(self, found: InstallationOverview) -> None:
        found.dead = await self._count("overview_dead", MOST)

    async def _batches(self, found: InstallationOverview) -> None:
        row = await self._database.fetchrow("overview_batches", MOST)
        assert row is not None, "an aggregate always gives a row"
        found.batches_open, found.batches_ended = row["open"], row["ended"]

    async def _feeds(self, found: InstallationOverview) -> None:
        row = await self._database.fetchrow("overview_feeds", MOST)
        assert row is not None, "an aggregate always gives a row"
        found.feed_backlog, found.feeds_behind = row["backlog"], row["behind"]

    async def _count(self, name: str, most: int) -> int:
        row = await self._database.fetchrow(name, most)
        assert row is not None, "an aggregate always gives a row"
        return int(row["tasks"])

    async def _limiters(self, found: InstallationOverview) -> None:
        row = await self._database.fetchrow("overview_limiters", MOST)
        assert row is not None, "an aggregate always gives a row"
        found.limiter_use, found.limiters_full = row["highest"], row["full"]

    async def _server(self, found: InstallationOverview) -> None:
        row = await self._database.fetchrow("overview_server")
        assert row is not None, "a SELECT without FROM gives its row"
        found.database_bytes, found.replication_lag = row["bytes"], row["lag_seconds"]

    async def _partitions(self, found: InstallationOverview) -> None:
        async with self._database.connection() as connection:
            now = await connection.fetchval("SELECT gnomon.now()")
            found.partitions_ahead = await partitions.days_ahead(connection, now.date())

    async def _unheld(self, found: InstallationOverview) -> None:
        rows = await self._database.fetch("overview_chores", self._chores)
        found.chores_unheld = {row["name"]: row["seconds"] for row in rows}
