"""A database clock that tests can turn: a task that is due in an hour runs now.

`install` replaces `gnomon.now()` in one database, so everything that Gnomon decides by time there
follows it: what is due, which lease has run out, what is past retention. Never install it in a
database whose tasks matter.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncpg

_INSTALL = """
CREATE TABLE IF NOT EXISTS gnomon.turned_clock (seconds double precision NOT NULL);
TRUNCATE gnomon.turned_clock;
INSERT INTO gnomon.turned_clock VALUES (0);
GRANT SELECT ON gnomon.turned_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION gnomon.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT clock_timestamp()
            + make_interval(secs => (SELECT seconds FROM gnomon.turned_clock))';
"""
_REMOVE = """
CREATE OR REPLACE FUNCTION gnomon.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT clock_timestamp()';
DROP TABLE IF EXISTS gnomon.turned_clock;
"""


async def install(connection: "asyncpg.Connection[Any]") -> None:
    """Replace the clock of this database by one that can be turned. It begins at the right time."""
    async with connection.transaction():
        await connection.execute(_INSTALL)


async def turn(connection: "asyncpg.Connection[Any]", seconds: float) -> None:
    """Set the clock forward, or back where `seconds` is negative."""
    await connection.execute("UPDATE gnomon.turned_clock SET seconds = seconds + $1", seconds)


async def remove(connection: "asyncpg.Connection[Any]") -> None:
    """Give the database its own clock back."""
    async with connection.transaction():
        await connection.execute(_REMOVE)


_HOLD = """
CREATE UNLOGGED TABLE IF NOT EXISTS gnomon.held_clock (moment timestamptz NOT NULL);
TRUNCATE gnomon.held_clock;
GRANT SELECT ON gnomon.held_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION gnomon.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT moment FROM gnomon.held_clock';
"""


async def hold(connection: "asyncpg.Connection[Any]", moment: datetime) -> None:
    """Stop the clock of this database at a moment; `set_to` moves it."""
    async with connection.transaction():
        await connection.execute(_HOLD)
        await connection.execute("INSERT INTO gnomon.held_clock VALUES ($1)", moment)


async def set_to(connection: "asyncpg.Connection[Any]", moment: datetime) -> None:
    """Set a clock that is held."""
    await connection.execute("UPDATE gnomon.held_clock SET moment = $1", moment)
