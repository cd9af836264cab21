"""Counts dead letters on PostgreSQL."""

from datetime import datetime

from gnomon.store.ports.insight.events import DeadLetterCount
from gnomon.store.postgres.database import Database

MOST_COUNTED = 5_000  # tenants and types, of one window


class PostgresDeadLetterCounts:
    """Reads the roll-up."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def dead(self, begins_at: datetime, ends_at: datetime) -> list[DeadLetterCount]:
        """Dead letters by tenant and type, as far as types are counted by themselves, and of all
        types together."""
        rows = await self._database.fetch("count_dead", begins_at, ends_at, MOST_COUNTED)
        return [DeadLetterCount(*row) for row in rows]
