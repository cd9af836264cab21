"""Events about dead letters on PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime

from gnomon.model.severity import DEAD_LETTERED
from gnomon.store.ports.events import DeadLetterCount, DeadLetterEvent
from gnomon.store.postgres.database import Database

MOST_COUNTED = 5_000  # tenants and types, of one window


class PostgresAlarm:
    """Reads the roll-up, and enters events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def dead(self, begins_at: datetime, ends_at: datetime) -> list[DeadLetterCount]:
        """Dead letters by tenant and type, as far as types are counted by themselves, and of all
        types together."""
        rows = await self._database.fetch("count_dead", begins_at, ends_at, MOST_COUNTED)
        return [DeadLetterCount(*row) for row in rows]

    async def enter(self, events: Sequence[DeadLetterEvent]) -> None:
        """Enter events, or bring them up to date."""
        await self._database.execute(
            "enter_dead_letter_events",
            [event.tenant_id for event in events],
            [event.id for event in events],
            [event.detail for event in events],
            DEAD_LETTERED,
        )
