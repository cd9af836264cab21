"""The outbox and its relay: tasks of a program whose database is not Gnomon's."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import asyncpg
import psycopg
import pytest
from tests.integration.submitting import charge
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon import Client, InvalidOption, NoTransaction, outbox
from gnomon.clock import SystemClock
from gnomon.relay.outbox_reader import MOST_BODY, OutboxReader
from gnomon.relay.relay import Relay


@pytest.fixture
async def shop(empty_dsn: str) -> AsyncIterator[Connection]:
    """A connection to the database of a program."""
    found = await asyncpg.connect(empty_dsn)
    await found.execute(outbox.ddl())
    await found.execute(outbox.ddl())
    await found.execute("CREATE TABLE sale (n integer)")
    yield found
    await found.close()


@asynccontextmanager
async def relaying(dsn: str, api: aiohttp.ClientSession) -> AsyncIterator[Relay]:
    reader = OutboxReader(dsn)
    async with Client(str(api._base_url)) as client:
        yield Relay(reader, client, SystemClock())
    await reader.close()


async def orders(connection: Connection) -> list[str]:
    query = "SELECT payload ->> 'order' AS o FROM gnomon.task WHERE json_typeof(payload) = 'object'"
    rows = await connection.fetch(query)
    return sorted(row["o"] for row in rows)


async def waiting(shop: Connection) -> int:
    count: int = await shop.fetchval("SELECT count(*) FROM gnomon_outbox")
    return count


async def test_what_was_committed_is_submitted(
    shop: Connection, empty_dsn: str, api: aiohttp.ClientSession, connection: Connection
) -> None:
    async with shop.transaction():
        for n in range(5):
            await outbox.put(shop, charge.prepare(f"order {n}"))
    undone = shop.transaction()
    await undone.start()
    await outbox.put(shop, charge.prepare("undone"))
    await undone.rollback()
    with psycopg.connect(empty_dsn) as blocking:
        key = outbox.put(blocking, charge.options(priority="low").prepare("last"))
    async with relaying(empty_dsn, api) as relay:
        assert await relay.run_once() == 6
        assert await relay.run_once() == 0
    assert await orders(connection) == ["last", *(f"order {n}" for n in range(5))]
    last = await connection.fetchrow("SELECT * FROM gnomon.task WHERE lane = 3")
    assert last is not None
    assert last["idempotency_key"] == f"outbox-{key}"
    assert await waiting(shop) == 0


async def test_a_task_needs_a_transaction(shop: Connection) -> None:
    with pytest.raises(NoTransaction):
        await outbox.put(shop, charge.prepare("a"))
    async with shop.transaction():
        with pytest.raises(InvalidOption, match="must be a time"):
            await outbox.put(shop, charge.options(expires="1h").prepare("a"))


async def test_one_that_is_refused_is_set_aside(
    shop: Connection, empty_dsn: str, api: aiohttp.ClientSession, connection: Connection
) -> None:
    bodies = [{"task_type": "t", "payload": {"order": "1"}}, {"task_type": ""}, 7]
    bodies.append({"task_type": "t", "payload": {"order": "2"}})
    for body in bodies:
        await shop.execute("INSERT INTO gnomon_outbox (body) VALUES ($1)", json.dumps(body))
    async with relaying(empty_dsn, api) as relay:
        assert await relay.run_once() == 4
        assert await orders(connection) == ["1", "2"]
        refused = await shop.fetch("SELECT refused FROM gnomon_outbox ORDER BY position")
        assert "/task_type" in refused[0]["refused"]
        assert refused[1]["refused"] == "is no JSON object"
        assert await relay.run_once() == 0
        await shop.execute(
            """
            UPDATE gnomon_outbox
            SET refused = NULL, body = '{"task_type": "t", "payload": {"order": "3"}}'
            """
        )
        assert await relay.run_once() == 2
    assert await orders(connection) == ["1", "2", "3", "3"]


async def test_nothing_that_can_be_in_an_outbox_keeps_the_others_from_being_submitted(
    shop: Connection, empty_dsn: str, api: aiohttp.ClientSession, connection: Connection
) -> None:
    """The type json of PostgreSQL takes what no other reads."""
    large = json.dumps({"task_type": "t", "payload": "x" * MOST_BODY})
    deep = '{"task_type": "t", "payload": ' + "[" * 3000 + "]" * 3000 + "}"
    strange = (r'{"task_type": "t", "payload": "\ud800"}', r'{"task_type": "\u0000"}', "{}", "[]")
    good = '{"task_type": "t", "payload": {"order": "1"}}'
    bodies = [large, deep, *strange, good]
    for body in bodies:
        await shop.execute("INSERT INTO gnomon_outbox (body) VALUES ($1)", body)
    async with relaying(empty_dsn, api) as relay:
        for _ in bodies:
            if not await relay.run_once():
                break
    assert "1" in await orders(connection)
    left = await shop.fetch("SELECT refused FROM gnomon_outbox ORDER BY position")
    assert all(row["refused"] for row in left)
    assert "bytes" in left[0]["refused"]


async def test_one_that_was_submitted_and_not_removed_is_the_same_task(
    shop: Connection, empty_dsn: str, api: aiohttp.ClientSession, connection: Connection
) -> None:
    """As when the relay dies between the answer and its commit."""
    async with shop.transaction():
        await outbox.put(shop, charge.prepare("a"))
        await outbox.put(shop, charge.prepare("b"))
    before = await shop.fetch("SELECT * FROM gnomon_outbox")
    async with relaying(empty_dsn, api) as relay:
        assert await relay.run_once() == 2
        for row in before:
            await shop.execute(
                "INSERT INTO gnomon_outbox OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3)",
                *row[:3],
            )
        async with shop.transaction():
            await outbox.put(shop, charge.prepare("c"))
        assert await relay.run_once() == 3
    assert await orders(connection) == ["a", "b", "c"]


async def test_one_relay_works_at_a_time(
    shop: Connection, empty_dsn: str, api: aiohttp.ClientSession
) -> None:
    async with shop.transaction():
        await outbox.put(shop, charge.prepare("a"))
    reader = OutboxReader(empty_dsn)
    async with relaying(empty_dsn, api) as relay:
        async with reader.taken(10) as taken:
            assert len(taken.rows) == 1
            assert await relay.run_once() == 0
        assert await relay.run_once() == 1
    await reader.close()


async def started(dsn: str, api: aiohttp.ClientSession) -> asyncio.subprocess.Process:
    environ = {**os.environ, "OUTBOX_URL": dsn, "GNOMON_OUTPUT_LOG_LEVEL": "error"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gnomon", "relay", "--api", str(api._base_url)), env=environ
    )


async def test_a_relay_that_is_killed_again_and_again_loses_and_repeats_nothing(
    shop: Connection, empty_dsn: str, api: aiohttp.ClientSession, connection: Connection
) -> None:
    written: list[str] = []

    async def write() -> None:
        """Half of the transactions are rolled back."""
        for n in range(400):
            transaction = shop.transaction()
            await transaction.start()
            await shop.execute("INSERT INTO sale VALUES ($1)", n)
            await outbox.put(shop, charge.prepare(str(n)))
            if n % 2:
                await transaction.rollback()
            else:
                await transaction.commit()
                written.append(str(n))

    async def killed_once_it_works() -> None:
        relay = await started(empty_dsn, api)
        before = len(await orders(connection))

        async def works() -> bool:
            return len(await orders(connection)) > before or len(written) == 200

        try:
            await eventually(works)
        finally:
            relay.send_signal(signal.SIGKILL)
            await relay.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        for _ in range(3):
            await killed_once_it_works()
    last = await started(empty_dsn, api)
    other = await asyncpg.connect(empty_dsn)

    async def is_empty() -> bool:
        return await waiting(other) == 0

    await eventually(is_empty)
    last.terminate()
    assert await last.wait() == 0
    await other.close()
    assert await orders(connection) == sorted(written)


async def test_a_restart_of_its_database_is_survived(
    shop: Connection, empty_dsn: str, api: aiohttp.ClientSession, connection: Connection
) -> None:
    async with relaying(empty_dsn, api) as relay, asyncio.TaskGroup() as group:
        running = group.create_task(relay.run())

        async def submitted(n: int) -> None:
            async with shop.transaction():
                await outbox.put(shop, charge.prepare(str(n)))

            async def is_there() -> bool:
                return str(n) in await orders(connection)

            await eventually(is_there)

        await submitted(1)
        # As PostgreSQL does to all sessions when it stops.
        ended: list[Any] = await shop.fetch(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """
        )
        assert ended
        await submitted(2)
        running.cancel()
