"""Sets the clock of a process by the database's, before anything is made that reads it."""

from gnomon.clock import Clock
from gnomon.store.postgres.database import Database


async def align(database: Database, clock: Clock) -> None:
    """Ids, due times and agendas go by the database's time, as far as it is known here."""
    asked_at = clock.monotonic()
    async with database.connection() as connection:
        clock.observe(await connection.fetchval("SELECT gnomon.now()"), asked_at)
