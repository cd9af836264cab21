"""Enters events into PostgreSQL."""

from collections.abc import Sequence

from gnomon.store.ports.events import NewEvent
from gnomon.store.postgres.database import Database


class PostgresEventWriter:
    """Enters events, each once, whoever notices what they tell and however often."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def enter(self, events: Sequence[NewEvent]) -> None:
        """Enters events by their ids. One that is there already, with another detail, has grown:
        it is brought up to date, and told again."""
        if not events:
            return
        await self._database.execute(
            "enter_events",
            [event.tenant_id for event in events],
            [event.id for event in events],
            [event.kind for event in events],
            [event.at for event in events],
            [event.cron_job_id for event in events],
            [event.task_id for event in events],
            [event.detail for event in events],
        )
