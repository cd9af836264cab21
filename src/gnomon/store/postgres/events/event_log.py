"""Reads events in the order of their numbers, which misses none that is committed late.

Numbers are given after the commit by whoever reads: see the function number_events.
"""

import asyncpg

from gnomon.model.errors import EventsGone
from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.store.ports.insight.events import EventRecord, LogPage, LogSpan
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.events.event_rows import event_of
from gnomon.store.postgres.queries import query

_AT_ONCE = 5_000  # events that get their numbers in one transaction


class PostgresEventLog:
    """The events of one tenant, or of all of them and the installation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def number(self) -> int:
        """Gives numbers to all committed events that have none; gives how many."""
        total = 0
        async with self._database.connection() as connection:
            while given := await connection.fetchval(query("number_events"), _AT_ONCE):
                total += given
                if given < _AT_ONCE:
                    break
        return total

    async def span(self) -> LogSpan:
        """Which numbers there are now. Whoever wants what happens from now on begins at the
        last."""
        await self.number()
        row = await self._database.fetchrow("event_span")
        assert row is not None, "the row is made with the table"
        return LogSpan(row["forgotten"], row["last"])

    async def read(self, after: int, limit: int, tenant_id: str | None = None) -> LogPage:
        """The next events after a number, of a tenant or of everybody. Raises EventsGone where
        some were removed meanwhile, or the number is not of this log."""
        await self.number()
        rows = await self._rows(after, limit, tenant_id)
        span = LogSpan(rows[0]["forgotten"], rows[0]["last"])
        if not span.forgotten <= after <= span.last:
            raise EventsGone(after, span.forgotten, span.last)
        events = [event_of(row) for row in rows if row["id"] is not None]
        return LogPage(events, _reached(events, limit, span))

    async def _rows(self, after: int, limit: int, tenant_id: str | None) -> list[asyncpg.Record]:
        if tenant_id is None:
            return await self._database.fetch("read_events", after, limit)
        if tenant_id == INSTALLATION:  # which is no tenant that a transaction could be of
            return await self._database.fetch("read_tenant_events", tenant_id, after, limit)
        async with self._database.scoped(tenant_id) as connection:
            return await connection.fetch(query("read_tenant_events"), tenant_id, after, limit)


def _reached(events: list[EventRecord], limit: int, span: LogSpan) -> int:
    """All up to this number were read, or are not for this reader."""
    if len(events) < limit:
        return span.last
    number = events[-1].number
    assert number is not None, "these are found by their numbers"
    return number
