"""Connections of transactional handlers and of a relay: nothing is compiled on them, and no session
is left changed, which a pooler would give to others."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import Connection
from tests.pooler import PgBouncer, require

from gnomon import outbox
from gnomon.relay.outbox_reader import OutboxReader
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.executing.handler_database import HandlerDatabase
from gnomon.testing.contracts.pipe import a_delivery

SERVERS = 2  # of the pooler
# What the driver has to look up the type of, for which it changes the setting and restores it.
LOOKED_UP = "SELECT current_setting('jit'), $1::bigint[]"


class Seen(Exception):
    """A handler has seen enough: its transaction is rolled back."""


@pytest.fixture
async def role(superuser: Connection, connection: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        await grant(connection, found)
        yield found


@pytest.fixture(params=["direct", "pooled"])
async def dsn(
    request: pytest.FixtureRequest,
    server_dsn: str,
    database_dsn: str,
    connection: Connection,
    role: str,
    tmp_path: Path,
) -> AsyncIterator[str]:
    """A way to a database that has compiling switched on, with and without a pooler."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET jit TO on")
    async with connection.transaction():  # in the schema of programs
        await connection.execute(f"SET LOCAL search_path = public; {outbox.ddl()}")
        await connection.execute(f"GRANT ALL ON gnomon_outbox TO {role}")
    if request.param == "direct":
        yield as_role(database_dsn, role)
        return
    require()
    bouncer = PgBouncer(as_role(server_dsn, role), tmp_path, size=SERVERS)
    bouncer.start()
    yield bouncer.to(database_dsn)
    bouncer.kill()


async def left(dsn: str) -> set[str]:
    """The setting on each server that the pooler has, or on new ones."""
    found: list[asyncpg.Connection[Any]] = [
        await asyncpg.connect(dsn, statement_cache_size=0) for _ in range(SERVERS)
    ]
    for each in found:
        await each.execute("BEGIN")  # now it has a server
    seen = {await each.fetchval("SHOW jit") for each in found}
    for each in found:
        await each.execute("ROLLBACK")
        await each.close()
    return seen


async def test_of_a_handler(dsn: str) -> None:
    seen = []
    database, ctx = HandlerDatabase(dsn), TaskContext(a_delivery(1))

    async def look() -> None:
        seen.append((await ctx.connection.fetchrow(LOOKED_UP, [1]))[0])
        await ctx.connection.execute("SET LOCAL jit = on")  # its own statements are its own
        async with ctx.connection.transaction():
            seen.append((await ctx.connection.fetchrow(LOOKED_UP, [1]))[0])
        raise Seen

    for _ in range(2):  # by one connection
        with pytest.raises(Seen):
            await database.run(ctx, look)
    async with database._pool.acquire() as connection:
        async with connection.transaction():
            assert (await connection.fetchrow(LOOKED_UP, [1]))[0] == "off"
        assert await connection.fetchval("SHOW jit") == "on"
    await database.close()
    assert seen == ["off", "on"] * 2
    assert await left(dsn) == {"on"}


async def test_of_a_relay(dsn: str) -> None:
    reader = OutboxReader(dsn)
    for _ in range(2):
        async with reader.taken(1) as taken:
            row = await taken._connection.fetchrow(LOOKED_UP, [1])
            assert row is not None
            assert row[0] == "off"
    # Asked without the transaction that is around whatever is fetched by it.
    plain: Any = asyncpg.Connection.fetchval
    assert await plain(reader._connection, "SHOW jit") == "on"
    await reader.close()
    assert await left(dsn) == {"on"}
