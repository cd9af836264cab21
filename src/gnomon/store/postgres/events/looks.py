"""Looks for what events tell of, by statements that nobody's work waits for."""

from collections.abc import Sequence
from datetime import date, timedelta

import asyncpg

from gnomon.clock import Clock
from gnomon.model.insight.event_kinds import LIMITER_STARVING, RETRY_STORM
from gnomon.store.postgres.database import Database, statements_within
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.expired_rows import BY_INDEX
from gnomon.store.postgres.retention.partitions import PARENTS, partition_name

MOST_FOUND = 500
MOST_OF_TENANT = 25  # of those of a kind: others' are found, however many one tenant has
TENANTS_AT_ONCE = 2_000
_SECONDS = 5.0  # of each statement


class PostgresLooks:
    """One question each, with bounded answers."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def retry_storms(self, minutes: int, retries: int) -> list[asyncpg.Record]:
        return await self._look(
            "look_retry_storms", minutes, retries, RETRY_STORM, MOST_FOUND, MOST_OF_TENANT
        )

    async def full_rooms(self, seconds: float) -> list[asyncpg.Record]:
        return await self._look("look_full_rooms", seconds, MOST_FOUND)

    async def crowded_tenants(self) -> list[asyncpg.Record]:
        return await self._look("look_crowded", MOST_FOUND)

    async def storage(self) -> list[asyncpg.Record]:
        return await self._look("look_storage", MOST_FOUND)

    async def starving_limiters(self, seconds: float) -> list[asyncpg.Record]:
        return await self._look(
            "look_starving_limiters",
            seconds,
            MOST_FOUND,
            LIMITER_STARVING,
            MOST_OF_TENANT,
            by_index=True,
        )

    async def late_feeds(self, seconds: float) -> list[asyncpg.Record]:
        return await self._look("look_feeds", seconds, MOST_FOUND)

    async def nodes(self, seconds: float) -> list[asyncpg.Record]:
        return await self._look("look_nodes", seconds, MOST_FOUND)

    async def troubles(self, seconds: float) -> list[asyncpg.Record]:
        return await self._look("look_troubles", seconds, MOST_FOUND)

    async def database(self) -> asyncpg.Record:
        tomorrow = (self._clock.now() + timedelta(days=1)).date()
        names = [partition_name(parent, tomorrow) for parent in PARENTS]
        rows = await self._look("look_database", list(PARENTS), names)
        return rows[0]

    async def usage(self, day: date, after: str) -> list[asyncpg.Record]:
        return await self._look("look_usage", day, after, TENANTS_AT_ONCE, by_index=True)

    async def entered(self, tenant_ids: Sequence[str], ids: Sequence[object]) -> set[object]:
        """Those of the events that are there."""
        rows = await self._look("entered_events", tenant_ids, ids)
        return {row["id"] for row in rows}

    async def _look(self, name: str, *args: object, by_index: bool = False) -> list[asyncpg.Record]:
        with statements_within(_SECONDS):
            async with self._database.transaction() as connection:
                if by_index:
                    await connection.execute(BY_INDEX)
                return await connection.fetch(query(name), *args)
