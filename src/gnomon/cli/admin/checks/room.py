"""Check of the room for new work."""

from typing import TYPE_CHECKING

from gnomon.cli.admin.checks.check import Check
from gnomon.settings import DatabaseSettings

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_MIB = 1024**2
_REMEDY = (
    "make room on the disk, shorten database.retention_days, delete tasks, or raise "
    "database.max_bytes; "
    "new work is accepted again by itself"
)


async def room(connection: "Connection", settings: DatabaseSettings) -> Check:
    from gnomon.model.fleet.room import no_room
    from gnomon.store.postgres.queries import query
    from gnomon.store.postgres.usage.room import measured
    from gnomon.store.room_watch import bounds_of

    row = await connection.fetchrow(query("measure"), True)
    assert row is not None, "a SELECT without FROM gives its row"
    found = await measured(row, settings.data_dir)
    refusal = await connection.fetchrow(query("revision"))
    assert refusal is not None, "the table has one row"
    why = refusal["full_why"] or no_room(found, bounds_of(settings), refusing=False)
    if why is not None:
        return Check("room", False, f"new work is refused: {why}", _REMEDY)
    detail = f"the database has {(found.database or 0) // _MIB} MiB"
    if settings.max_bytes is not None:
        detail += f" of {settings.max_bytes // _MIB}"
    if found.free is not None:
        return Check("room", True, f"{detail}; {found.free // _MIB} MiB are free on its disk")
    if settings.max_bytes is None:
        detail += "; its disk cannot be seen from here, and database.max_bytes is not set"
    return Check("room", True, detail)
