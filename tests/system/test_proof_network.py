"""The proxy of the proof harness breaks what it says it breaks, and nothing else."""

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest
from proof.campaigns.backend import Answers, Asked
from proof.campaigns.proxy import Proxy
from tests.conftest import FAST
from tests.system.harness import eventually

from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Connect = Callable[[], Awaitable[Connection]]
_LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that listens on a port."""
    folder: Path = tmp_path_factory.mktemp("loopback") / "data"
    server = EmbeddedServer(folder, settings_overrides=FAST, sockets=False)
    yield server.start()
    server.stop(mode="immediate")


@pytest.fixture
async def truth(loopback: str) -> AsyncIterator[Connection]:
    """A connection that goes around the proxy, to a server with one empty table."""
    connection = await asyncpg.connect(loopback)
    await connection.execute("DROP TABLE IF EXISTS number; CREATE TABLE number (n int)")
    yield connection
    await connection.close()


@pytest.fixture
async def proxy(loopback: str) -> AsyncIterator[Proxy]:
    async with Proxy(("127.0.0.1", _port(loopback))) as started:
        yield started


@pytest.fixture
async def connect(loopback: str, proxy: Proxy) -> AsyncIterator[Connect]:
    """Connections through the proxy."""
    dsn = loopback.replace(f":{_port(loopback)}/", f":{proxy.port}/")
    opened: list[Connection] = []

    async def one_more() -> Connection:
        opened.append(await asyncpg.connect(dsn, timeout=10))
        return opened[-1]

    yield one_more
    for connection in opened:
        connection.terminate()


@pytest.fixture
async def client(connect: Connect, truth: Connection) -> Connection:
    return await connect()


def _port(dsn: str) -> int:
    return int(dsn.rsplit(":", 1)[1].split("/")[0])


async def _numbers(truth: Connection) -> list[int]:
    return [row["n"] for row in await truth.fetch("SELECT n FROM number ORDER BY n")]


async def _is_cut(connection: Connection) -> bool:
    try:
        await asyncio.wait_for(connection.fetchval("SELECT 1"), 10)
    except _LOST:
        return True
    return False


async def test_a_cut_resets_the_open_connections_and_lets_new_ones_through(
    connect: Connect, proxy: Proxy, client: Connection
) -> None:
    other = await connect()
    assert proxy.cut() == 2
    assert await _is_cut(client)
    assert await _is_cut(other)
    assert not await _is_cut(await connect())


async def test_a_client_that_closes_is_gone_on_the_other_side_too(
    proxy: Proxy, client: Connection, truth: Connection
) -> None:
    pid = client.get_server_pid()
    await client.close()

    async def gone() -> bool:
        found = await truth.fetch("SELECT FROM pg_stat_activity WHERE pid = $1", pid)
        return not found and proxy.connections == 0

    await eventually(gone)


async def test_a_delay_holds_up_both_ways(proxy: Proxy, client: Connection) -> None:
    proxy.delay(0.15)
    began = time.monotonic()
    await client.execute("SELECT 1")
    assert time.monotonic() - began >= 0.3
    assert proxy.delayed >= 2
    proxy.delay(0)
    before = proxy.delayed
    await client.execute("SELECT 1")
    assert proxy.delayed == before


async def test_a_black_hole_swallows_and_keeps_connections_until_it_ends(
    connect: Connect, proxy: Proxy, client: Connection, truth: Connection
) -> None:
    untouched = await connect()
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        await client.execute("INSERT INTO number VALUES (1)", timeout=0.3)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connect(), 0.3)
    assert proxy.swallowed >= 2
    assert proxy.let_through() >= 2
    assert await _numbers(truth) == []
    assert await _is_cut(client)
    assert not await _is_cut(untouched)
    assert not await _is_cut(await connect())


async def test_the_server_does_not_hear_of_an_end_in_the_black_hole(
    proxy: Proxy, client: Connection, truth: Connection
) -> None:
    """A transaction that is open then stays open: with its locks, as in real life."""
    pid = client.get_server_pid()
    await client.execute("BEGIN; LOCK TABLE number")
    proxy.black_hole()
    client.terminate()

    async def left() -> bool:
        return bool(await truth.fetch("SELECT FROM pg_stat_activity WHERE pid = $1", pid))

    await asyncio.wait_for(_torn(proxy), 10)
    assert await left()
    proxy.let_through()

    async def gone() -> bool:
        return not await left()

    await eventually(gone)


async def _torn(proxy: Proxy) -> None:
    async def torn() -> bool:
        return any(link.torn for link in proxy._links)

    await eventually(torn)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO number VALUES ($1)",
        "INSERT INTO number VALUES ($1) RETURNING n",
        "WITH new AS (INSERT INTO number VALUES ($1) RETURNING n) SELECT * FROM new",
    ],
)
async def test_an_answer_is_lost_after_its_commit(
    connect: Connect, proxy: Proxy, client: Connection, truth: Connection, statement: str
) -> None:
    proxy.lose_answers(1)
    with pytest.raises(_LOST):
        await client.fetch(statement, 7)
    assert await _numbers(truth) == [7]
    assert proxy.lost_answers == 1
    again = await connect()
    await again.fetch(statement, 8)
    assert await _numbers(truth) == [7, 8]


async def test_the_answer_to_a_commit_is_lost_and_not_those_within(
    proxy: Proxy, client: Connection, truth: Connection
) -> None:
    proxy.lose_answers(1)
    transaction = client.transaction()
    await transaction.start()
    await client.execute("INSERT INTO number VALUES ($1)", 1)
    assert await client.fetchval("SELECT count(*) FROM number") == 1
    with pytest.raises(_LOST):
        await transaction.commit()
    assert await _numbers(truth) == [1]


async def test_answers_that_tell_of_no_commit_are_not_lost(
    proxy: Proxy, client: Connection, truth: Connection
) -> None:
    proxy.lose_answers(1)
    await client.fetch("SELECT n FROM number WHERE n = $1", 1)
    await client.execute("DELETE FROM number")
    with contextlib.suppress(asyncpg.DivisionByZeroError):
        await client.execute("INSERT INTO number SELECT 1 / 0")
    async with client.transaction():
        await client.fetch("SELECT n FROM number")
    transaction = client.transaction()
    await transaction.start()
    await client.execute("INSERT INTO number VALUES (1)")
    await transaction.rollback()
    assert proxy.lost_answers == 0
    assert await _numbers(truth) == []


async def test_only_answers_about_something_are_lost(
    proxy: Proxy, client: Connection, truth: Connection
) -> None:
    await truth.execute("DROP TABLE IF EXISTS letter; CREATE TABLE letter (c text)")
    proxy.lose_answers(1, "INTO letter")
    await client.execute("INSERT INTO number VALUES (1)")
    transaction = client.transaction()
    await transaction.start()
    await client.execute("INSERT INTO letter VALUES ('a')")
    await client.execute("INSERT INTO number VALUES (2)")
    with pytest.raises(_LOST):
        await transaction.commit()
    assert proxy.lost_answers == 1


async def test_what_is_said_unasked_passes_at_once(
    proxy: Proxy, client: Connection, truth: Connection
) -> None:
    heard: asyncio.Queue[object] = asyncio.Queue()
    proxy.lose_answers(1)
    await client.add_listener("news", lambda *told: heard.put_nowait(told[3]))
    await truth.execute("SELECT pg_notify('news', 'something')")
    assert await asyncio.wait_for(heard.get(), 10) == "something"


async def test_new_connections_go_to_the_new_target(
    loopback: str, connect: Connect, proxy: Proxy, client: Connection
) -> None:
    proxy.retarget("127.0.0.1", 1)  # nobody is there
    with pytest.raises((*_LOST, TimeoutError)):
        await connect()
    proxy.retarget("127.0.0.1", _port(loopback))
    assert not await _is_cut(await connect())
    assert not await _is_cut(client)


def test_a_stream_is_understood_in_pieces_of_any_size() -> None:
    def message(kind: bytes, text: bytes) -> bytes:
        return kind + struct.pack("!I", 4 + len(text)) + text

    opening = struct.pack("!II", 8, 80877103) + struct.pack("!II", 8, 196608)
    question = message(b"P", b"s1\0UPDATE x SET a = 1\0\0\0") + message(b"B", b"\0s1\0\0\0")
    greeting = b"N" + message(b"R", bytes(4)) + message(b"Z", b"I")
    reply = message(b"2", b"") + message(b"C", b"UPDATE 3\0") + message(b"Z", b"I")
    for size in (1, 2, 3, 7, 1000):
        asked = Asked()
        answers = Answers(asked)
        _feed(asked, opening, size)
        assert _pieces(answers, greeting, size) == [(greeting, None)]
        _feed(asked, question, size)
        assert _pieces(answers, reply, size) == [(reply, [b"UPDATE x SET a = 1"])]


def _feed(asked: Asked, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        asked.feed(data[at : at + size])


def _pieces(answers: Answers, data: bytes, size: int) -> list[tuple[bytes, list[bytes] | None]]:
    """Everything that came, joined up to what told of a commit."""
    passed, told = b"", None
    for at in range(0, len(data), size):
        for piece, about in answers.feed(data[at : at + size]):
            passed, told = passed + piece, about
    return [(passed, told)]
