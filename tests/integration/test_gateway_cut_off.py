"""A gateway that has lost its way to PostgreSQL, and lives: its workers renew their leases at
another one, and in time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
import pytest
from proof.campaigns.proxy import Proxy
from psycopg.conninfo import conninfo_to_dict
from tests.brokers import ValkeyServer
from tests.conftest import serving
from tests.integration.api_calls import Api
from tests.integration.remote_workers import SESSIONS, TestedWorker, opened
from tests.integration.support import Connection
from tests.integration.test_gateway_adoption import QUICK, lease_left
from tests.waiting import eventually

from gnomon.client.http import ApiServer
from gnomon.clock import SystemClock
from gnomon.model.errors import StoreUnavailable
from gnomon.pipe.http.messages import SessionOpened
from gnomon.remote.gateway_calls import BeatConnection
from gnomon.remote.pipe_transport import PipeTransport
from gnomon.settings import PipeSettings
from gnomon.store.postgres.database import Database

LEASE = 8.0
SETTINGS = QUICK | {"gateway_lease_seconds": LEASE, "node_lease_seconds": 60.0}


class SocketProxy(Proxy):
    """Leads to a socket in a folder."""

    def __init__(self, path: str) -> None:
        super().__init__(("", 0))
        self._path = path

    async def _reach(self, link: Any) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: link.server, self._path)


@asynccontextmanager
async def proxied(dsn: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy to the server, and the way through it."""
    server = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    folder = server["host"].startswith("/")
    path = f"{server['host']}/.s.PGSQL.{server['port']}"
    made = SocketProxy(path) if folder else Proxy((server["host"], int(server["port"])))
    async with made as proxy:
        way = {**server, "host": "127.0.0.1", "port": str(proxy.port)}
        yield proxy, f"postgresql:///{way.pop('dbname')}?{urlencode(way)}"


@pytest.fixture
async def proxy_and_way(database_dsn: str) -> AsyncIterator[tuple[Proxy, str]]:
    async with proxied(database_dsn) as made:
        yield made


@contextmanager
def cut_off(proxy: Proxy) -> Iterator[None]:
    proxy.black_hole()
    try:
        yield
    finally:
        proxy.let_through()


async def refused(api: Api, worker: TestedWorker) -> str | None:
    """What a beat that is refused in time says of the connection."""
    path = f"{SESSIONS}/{worker.id}/beat"
    async with asyncio.timeout(LEASE / 4), api.post(path, headers=worker.headers) as response:
        assert response.status == 503
        return response.headers.get("Connection")


async def test_a_beat_is_refused_in_time_and_heard_again_as_soon_as_there_is_a_way(
    proxy_and_way: tuple[Proxy, str], connection: Connection
) -> None:
    proxy, way = proxy_and_way
    async with serving(way, **SETTINGS) as api:
        worker = await opened(api)
        await worker.beat()
        with cut_off(proxy):
            first = asyncio.ensure_future(refused(api, worker))
            await asyncio.sleep(0.3)  # so that PostgreSQL was asked for the first one alone
            second = await refused(api, worker)
            # So that a balancer may lead the next one to another gateway.
            assert (await first, second) == ("close", "close")
        async with asyncio.timeout(LEASE / 4):
            await worker.beat()
        assert await lease_left(connection, worker) > LEASE - 1.0


async def test_a_short_hiccup_is_waited_for(database_dsn: str, connection: Connection) -> None:
    async with serving(database_dsn, **QUICK | {"gateway_lease_seconds": 300.0}) as api:
        worker = await opened(api)

        async def waits() -> bool:
            sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            return bool(await connection.fetchval(sql))

        async with connection.transaction():
            await connection.execute("SELECT FROM gnomon.node WHERE kind = 2 FOR UPDATE")
            beat = asyncio.ensure_future(worker.beat())
            await eventually(waits)
        assert await beat == {"lease_seconds": 300.0}


async def test_a_connection_that_does_not_answer_is_given_up_with_the_statement(
    proxy_and_way: tuple[Proxy, str],
) -> None:
    proxy, way = proxy_and_way
    database = Database(way, 1)
    await database.open()
    await database.fetch_within(5.0, "find_api_keys", [b""])
    with cut_off(proxy), pytest.raises(StoreUnavailable):
        async with asyncio.timeout(2.0):  # to wait for its cancelling would take five
            await database.fetch_within(0.2, "find_api_keys", [b""])
    assert database.use().idle == 0
    await database.fetch_within(5.0, "find_api_keys", [b""])
    await database.close()


async def listening(valkey: ValkeyServer, count: int) -> None:
    async with asyncio.timeout(20):
        while len(valkey.client.pubsub_channels("*:gateway:*")) < count:
            await asyncio.sleep(0.02)


async def test_a_worker_behind_a_broker_renews_its_lease_at_another_gateway(
    valkey: ValkeyServer, database_dsn: str, connection: Connection
) -> None:
    """Whichever of the two it has chosen."""
    piped = SETTINGS | {"pipe_url": valkey.url, "pipe_namespace": "cut-off"}
    async with (
        proxied(database_dsn) as (of_first, to_first),
        proxied(database_dsn) as (of_second, to_second),
        serving(to_first, **piped) as first,
        serving(to_second, **piped),
    ):
        await listening(valkey, 2)
        worker = await opened(first)
        opening = msgspec.convert(worker.opened, SessionOpened)
        pipe = PipeSettings(url=valkey.url, namespace="cut-off")
        transport = PipeTransport(pipe, SystemClock(), b"")
        server = ApiServer("http://pipe", None, 20.0, async_transport=transport)
        beats = BeatConnection(server, opening)
        assert await beats.renew(UUID(worker.id), LEASE) == LEASE
        for proxy in (of_first, of_second, of_first):
            with cut_off(proxy):
                async with asyncio.timeout(LEASE / 3):
                    await beats.renew(UUID(worker.id), LEASE)
                assert await lease_left(connection, worker) > LEASE / 2
        await beats.close()
