"""Tasks of programs whose connections lead through PgBouncer in transaction mode: by their own
transactions, and by an outbox and its relay."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import psycopg
import psycopg2
import pytest
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.submitting import RolledBack, charge
from tests.integration.support import Connection
from tests.pooler import PgBouncer, require

from gnomon import Client, outbox
from gnomon.clock import SystemClock
from gnomon.relay.outbox_reader import OutboxReader
from gnomon.relay.relay import Relay


@pytest.fixture
async def role(superuser: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        yield found


@pytest.fixture
async def bouncer(server_dsn: str, role: str, tmp_path: Path) -> AsyncIterator[PgBouncer]:
    """Two servers for all who come, with the login of a program's role."""
    require()
    found = PgBouncer(as_role(server_dsn, role), tmp_path, size=2)
    found.start()
    yield found
    found.kill()


@pytest.fixture
async def pooled(bouncer: PgBouncer, database_dsn: str, connection: Connection, role: str) -> str:
    await grant(connection, role)
    return bouncer.to(database_dsn)


async def by_asyncpg(dsn: str, who: str, *, commits: bool) -> None:
    connection = await asyncpg.connect(dsn, statement_cache_size=0)
    try:
        async with connection.transaction():
            await charge.options(connection=connection).submit(who)
            if not commits:
                raise RolledBack
    finally:
        await connection.close()


async def by_psycopg(dsn: str, who: str, *, commits: bool) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None) as connection:
        await charge.options(connection=connection).submit(who)
        if not commits:
            raise RolledBack


async def by_psycopg2(dsn: str, who: str, *, commits: bool) -> None:
    def work() -> None:
        connection = psycopg2.connect(dsn)
        try:
            with connection:
                charge.options(connection=connection).submit_sync(who)
                if not commits:
                    raise RolledBack
        finally:
            connection.close()

    await asyncio.to_thread(work)


async def test_tasks_are_there_exactly_when_their_transactions_committed(
    pooled: str, connection: Connection
) -> None:
    """Many at once, over two servers that take turns."""

    async def work(number: int) -> None:
        submit: Any = (by_asyncpg, by_psycopg, by_psycopg2)[number % 3]
        try:
            await submit(pooled, f"n{number}", commits=number % 2 == 0)
        except RolledBack:
            assert number % 2

    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(work(number))
    rows = await connection.fetch("SELECT payload ->> 'order' AS who FROM gnomon.task")
    assert {row["who"] for row in rows} == {f"n{number}" for number in range(0, 30, 2)}
    assert len(rows) == 15
    assert await connection.fetchval("SELECT sum(submissions) FROM gnomon.usage") == 15


async def test_an_outbox_is_relayed(
    bouncer: PgBouncer,
    empty_dsn: str,
    superuser: Connection,
    role: str,
    api: aiohttp.ClientSession,
    connection: Connection,
) -> None:
    shop = await asyncpg.connect(empty_dsn)
    await shop.execute(outbox.ddl())
    await shop.execute(f"GRANT ALL ON gnomon_outbox TO {role}")
    through = bouncer.to(empty_dsn)
    writer = await asyncpg.connect(through, statement_cache_size=0)
    for number in range(5):
        async with writer.transaction():
            await outbox.put(writer, charge.prepare(f"n{number}"))
    reader = OutboxReader(through)
    async with Client(str(api._base_url)) as client:
        relay = Relay(reader, client, SystemClock())
        assert await relay.run_once() == 5
        assert await relay.run_once() == 0
    await reader.close()
    await writer.close()
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 5
    await shop.execute(f"REVOKE ALL ON gnomon_outbox FROM {role}")
    await shop.close()
