"""Sessions of people in PostgreSQL."""

from datetime import datetime

from gnomon.store.postgres.database import Database


class PostgresSessions:
    """Stores sessions by name; what is in them only their holder can read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, name: bytes, sealed: bytes, ends_at: datetime) -> None:
        await self._database.execute("insert_session", name, sealed, ends_at)

    async def find(self, name: bytes, now: datetime) -> bytes | None:
        """What a session that has not ended by `now` holds."""
        row = await self._database.fetchrow("find_session", name, now)
        return None if row is None else bytes(row["sealed"])

    async def remove(self, name: bytes) -> None:
        await self._database.execute("delete_session", name)
