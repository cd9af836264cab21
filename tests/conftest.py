"""Fixtures of the whole project: a real PostgreSQL, and a fresh migrated database for each test.

Each test process runs one server of its own, without fsync: nothing here outlives the run. A test
gets a copy of a template that was migrated once (by FILE_COPY: without fsync, the quicker way).
All files of a run are in memory where there is room.
"""

import asyncio
import gc
import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import psycopg
import pytest
import structlog
from hypothesis import settings as hypothesis_settings
from structlog.testing import capture_logs
from tests import memory_folder
from tests.scheduling import spread
from tests.settings import settings_with

from gnomon.clock import SystemClock
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.embedded.roles import USER
from gnomon.store.postgres import migrate
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.retention import partitions
from gnomon.wiring.api import serve

if TYPE_CHECKING:
    from tests.brokers import ValkeyServer

TEMPLATE = "gnomon_template"
UNPARTITIONED = "gnomon_schema"  # the same without any daily partition
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "autovacuum_naptime": "60s",  # few databases live as long as the ten seconds that are ours
}

_in_memory = pytest.StashKey[Path]()

# How long an example takes says more about the machine than about the code.
hypothesis_settings.register_profile("gnomon", deadline=None, max_examples=50)
hypothesis_settings.load_profile("gnomon")
# `make unit` asks for this one: a look before every commit, where `make test` looks closer.
hypothesis_settings.register_profile("quick", deadline=None, max_examples=20)

# The contract suites are part of the package: what they compare is shown when they fail.
pytest.register_assert_rewrite("gnomon.testing.contracts")

_numbers = itertools.count(1)

_configure_logs = structlog.configure


def _configure_uncached(**given: Any) -> None:
    _configure_logs(**given | {"cache_logger_on_first_use": False})


# A logger that keeps its first configuration is deaf to `capture_logs` in all later tests.
structlog.configure = cast("Any", _configure_uncached)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that runs within a test configures the logs of the whole process."""
    was_configured, before = structlog.is_configured(), structlog.get_config()
    yield
    if was_configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()


def _not_ignored(*numbers: signal.Signals) -> None:
    """Let processes that tests start be reached by these signals. A shell lets what it starts in
    the background ignore SIGINT, and nohup SIGHUP; what is ignored stays so in all that is started
    from there, and what is caught, as it is here from now on, does not."""
    for number in numbers:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    _not_ignored(signal.SIGINT, signal.SIGHUP)
    if "PYTEST_XDIST_WORKER" in os.environ or config.option.basetemp is not None:
        return
    if (folder := memory_folder.make()) is not None:
        config.stash[_in_memory] = folder
        config.option.basetemp = folder / "pytest"
        memory_folder.use(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (folder := config.stash.get(_in_memory, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = spread(items, processes)


def pytest_collection_finish() -> None:
    """Tests and modules stay: the collector of garbage need not look through them over and over."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def on_database(dsn: str, name: str) -> str:
    """The same server, another database."""
    parts = urlsplit(dsn)
    return f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"


async def connected(dsn: str) -> "asyncpg.Connection[asyncpg.Record]":
    return await asyncpg.connect(dsn, server_settings={"timezone": "UTC"})


async def migrated(dsn: str) -> None:
    """Bring a database to the newest schema, with the partitions of today."""
    connection = await connected(dsn)
    try:
        with capture_logs():  # of each step: a campaign prints its own results
            await migrate.up(connection)
        today = await connection.fetchval("SELECT (gnomon.now() AT TIME ZONE 'UTC')::date")
        await partitions.make(connection, today)
    finally:
        await connection.close()


@cache
def _superuser_of(dsn: str) -> "psycopg.Connection[Any]":
    """A connection for all tests of this process, whichever loop they run in: two of their own for
    each database would cost them half as much as the database."""
    return psycopg.connect(dsn, autocommit=True)


class PostgresServer(NamedTuple):
    """The server of this test process, as Gnomon connects to it, and as who may do anything."""

    dsn: str
    superuser_dsn: str
    owner: str = "DEFAULT"

    async def create(self, name: str, how: str = "") -> str:
        """A database that belongs to the role that Gnomon connects as."""
        statement = f"CREATE DATABASE {name} OWNER {self.owner} {how}"
        _superuser_of(self.superuser_dsn).execute(statement.encode())
        return on_database(self.dsn, name)

    async def drop(self, name: str) -> None:
        statement = f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"
        _superuser_of(self.superuser_dsn).execute(statement.encode())

    def close(self) -> None:
        _superuser_of(self.superuser_dsn).close()
        _superuser_of.cache_clear()


async def _make_templates(server: PostgresServer) -> None:
    for name in (TEMPLATE, UNPARTITIONED):
        await server.drop(name)
    connection = await connected(await server.create(UNPARTITIONED))
    await migrate.up(connection)
    await connection.close()
    await migrated(await server.create(TEMPLATE, _copy_of(UNPARTITIONED)))


def _copy_of(template: str) -> str:
    return f"TEMPLATE {template} STRATEGY FILE_COPY"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The server of this test process. GNOMON_TEST_SERVER names another one to test against, as a
    user that may create databases; then run one process (`-n 0`)."""
    if dsn := os.environ.get("GNOMON_TEST_SERVER"):
        found = PostgresServer(dsn, dsn)
        asyncio.run(_make_templates(found))
        yield found
        found.close()
        return
    folder = tmp_path_factory.mktemp("postgres")
    embedded = EmbeddedServer(folder / "data", settings_overrides=FAST)
    embedded.start()
    try:
        found = PostgresServer(embedded.dsn, embedded.superuser_dsn, USER)
        asyncio.run(_make_templates(found))
        yield found
        found.close()
    finally:
        embedded.stop(mode="immediate")


@pytest.fixture(scope="session")
def migrated_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a migrated server that was stopped, for `shutil.copytree`: a server on
    a copy of it costs a fifth of one that has to be made."""
    folder = tmp_path_factory.mktemp("migrated") / "data"
    with EmbeddedServer(folder, settings_overrides=FAST) as server:
        asyncio.run(migrated(server.dsn))
    return folder


@pytest.fixture(scope="session")
def server_dsn(postgres: PostgresServer) -> str:
    return postgres.dsn


@asynccontextmanager
async def fresh_database(postgres: PostgresServer, template: str = TEMPLATE) -> AsyncIterator[str]:
    """A fresh, migrated database. It is dropped afterwards, whoever is still connected."""
    name = f"test_{next(_numbers)}"
    yield await postgres.create(name, _copy_of(template))
    await postgres.drop(name)


@pytest.fixture
async def database_dsn(postgres: PostgresServer) -> AsyncIterator[str]:
    async with fresh_database(postgres) as dsn:
        yield dsn


@pytest.fixture
def direct_dsn(database_dsn: str) -> str:
    """The way to `database_dsn` that no pooler is in: the same, but for the tests that have one."""
    return database_dsn


@pytest.fixture
async def unpartitioned_dsn(postgres: PostgresServer) -> AsyncIterator[str]:
    """A fresh, migrated database without any daily partition."""
    async with fresh_database(postgres, UNPARTITIONED) as dsn:
        yield dsn


@pytest.fixture
async def empty_dsn(postgres: PostgresServer) -> AsyncIterator[str]:
    """A fresh database without any schema."""
    name = f"test_{next(_numbers)}"
    yield await postgres.create(name)
    await postgres.drop(name)


@asynccontextmanager
async def opened(dsn: str, reserved: int = 0) -> AsyncIterator[Database]:
    """An open pool, with so many connections for claims and settlements."""
    found = Database(dsn, 8, reserved=reserved)
    await found.open()
    yield found
    await found.close()


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    """An open pool on `database_dsn`."""
    async with opened(database_dsn) as found:
        yield found


@pytest.fixture
async def connection(database_dsn: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """A connection of one's own to `database_dsn`, to look behind the code under test."""
    opened = await connected(database_dsn)
    yield opened
    await opened.close()


@pytest.fixture
async def superuser(
    postgres: PostgresServer, database_dsn: str
) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """The same, as a role that may do anything: make roles, leave out foreign keys."""
    dsn = on_database(postgres.superuser_dsn, urlsplit(database_dsn).path.strip("/"))
    opened = await connected(dsn)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@asynccontextmanager
async def serving(dsn: str, **settings: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """The API in this loop on a free port, and a client of it."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    chosen = settings_with(**{"api_port": 0, **settings})
    async with asyncio.TaskGroup() as group:
        api = group.create_task(serve(chosen, dsn, SystemClock(), started.set_result))
        async with aiohttp.ClientSession(await started) as client:
            yield client
        api.cancel()


@contextmanager
def serving_in_thread(dsn: str, **settings: Any) -> Iterator[str]:
    """The API on a free port, in a loop of its own; gives its URL."""
    found: Queue[tuple[str, Callable[[], object]]] = Queue()

    async def serve_until_told() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        async with serving(dsn, **settings) as client:
            found.put((str(client._base_url), partial(loop.call_soon_threadsafe, stop.set)))
            await stop.wait()

    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(asyncio.run, serve_until_told())
        served.add_done_callback(lambda _: found.put(("", lambda: None)))  # it failed
        url, stop = found.get(timeout=60.0)
        try:
            yield url
        finally:
            stop()
            served.result(60.0)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ValkeyServer]":
    """A Valkey that stores nothing, for all tests of a file."""
    from tests.brokers import ValkeyServer

    server = ValkeyServer(tmp_path_factory.mktemp("valkey"), kept=False)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def shared_url(postgres: PostgresServer) -> Iterator[str]:
    name = f"shared_{next(_numbers)}"
    dsn = asyncio.run(postgres.create(name, _copy_of(TEMPLATE)))
    with serving_in_thread(dsn) as url:
        yield url
    asyncio.run(postgres.drop(name))


@pytest.fixture
async def shared_api(shared_url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of one API for all tests of a file that store nothing, or take away what they have
    stored: a database and an API of its own cost a test more than all that it asks for."""
    async with aiohttp.ClientSession(shared_url) as client:
        yield client


@pytest.fixture
async def api(database_dsn: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the API on `database_dsn`."""
    async with serving(database_dsn) as client:
        yield client
