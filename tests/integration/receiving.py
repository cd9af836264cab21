"""Receivers' own transactions, in each driver: mark the task, write one row, commit."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import asyncpg
import psycopg
import psycopg2
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from gnomon import receive
from gnomon.receive import Received

WRITE = "INSERT INTO effect (fence) VALUES ({})"


class Failed(Exception):
    """The receiver's work failed after the mark."""


def received(fence: int = 1, task: int = 1) -> Received[None]:
    return Received(
        task_id=UUID(int=task),
        task_type="charge",
        tenant="acme",
        attempt=1,
        fence=fence,
        scheduled_for=datetime.now(UTC),
        idempotency_key="k",
        correlation_id="k",
        payload=None,
    )


class Step:
    """What a test does between the mark and the write, in whichever thread: wait, or fail."""

    def __init__(self, *, fails: bool = False) -> None:
        self.marked = threading.Event()
        self.goes_on = threading.Event()
        self._fails = fails

    def __call__(self) -> None:
        self.marked.set()
        assert self.goes_on.wait(60)
        if self._fails:
            raise Failed


Between = Callable[[], None]
Work = Callable[[str, Received[None], Between], None]


def _asyncpg(dsn: str, call: Received[None], between: Between) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                await receive.once(connection, call)
                await asyncio.to_thread(between)
                await connection.execute(WRITE.format("$1"), call.fence)
        finally:
            await connection.close()

    asyncio.run(work())


def _asyncpg_pool(dsn: str, call: Received[None], between: Between) -> None:
    async def work() -> None:
        async with (
            asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
            pool.acquire() as connection,
            connection.transaction(),
        ):
            await receive.once(connection, call)
            await asyncio.to_thread(between)
            await connection.execute(WRITE.format("$1"), call.fence)

    asyncio.run(work())


def _psycopg(dsn: str, call: Received[None], between: Between) -> None:
    with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as connection:
        receive.once(connection, call)
        between()
        connection.execute(WRITE.format("%s"), [call.fence])


def _psycopg_autocommit(dsn: str, call: Received[None], between: Between) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        receive.once(connection, call)
        between()
        connection.execute(WRITE.format("%s"), [call.fence])


def _psycopg_async(dsn: str, call: Received[None], between: Between) -> None:
    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await receive.once(connection, call)
            await asyncio.to_thread(between)
            await connection.execute(WRITE.format("%s"), [call.fence])

    asyncio.run(work())


def _psycopg2(dsn: str, call: Received[None], between: Between) -> None:
    connection = psycopg2.connect(dsn)
    try:
        with connection, connection.cursor() as cursor:
            receive.once(connection, call)
            between()
            cursor.execute(WRITE.format("%s"), [call.fence])
    finally:
        connection.close()


def _sqlalchemy(dsn: str, call: Received[None], between: Between) -> None:
    with engine_on(dsn) as engine, engine.begin() as connection:
        receive.once(connection, call)
        between()
        connection.execute(sqlalchemy.text(WRITE.format(":fence")), {"fence": call.fence})


def _session(dsn: str, call: Received[None], between: Between) -> None:
    with engine_on(dsn, "psycopg2") as engine, Session(engine) as session, session.begin():
        receive.once(session, call)
        between()
        session.execute(sqlalchemy.text(WRITE.format(":fence")), {"fence": call.fence})


def _async_session(dsn: str, call: Received[None], between: Between) -> None:
    async def work() -> None:
        engine = create_async_engine(url_of(dsn, "asyncpg"))
        try:
            async with AsyncSession(engine) as session, session.begin():
                await receive.once(session, call)
                await asyncio.to_thread(between)
                write = sqlalchemy.text(WRITE.format(":fence"))
                await session.execute(write, {"fence": call.fence})
        finally:
            await engine.dispose()

    asyncio.run(work())


def _django(dsn: str, call: Received[None], between: Between) -> None:
    from django.db import transaction

    with django_connection(dsn) as connection, transaction.atomic(using=connection.alias):
        receive.once(connection, call)
        between()
        with connection.cursor() as cursor:
            cursor.execute(WRITE.format("%s"), [call.fence])


WORKS: dict[str, Work] = {
    "asyncpg": _asyncpg,
    "asyncpg pool": _asyncpg_pool,
    "psycopg": _psycopg,
    "psycopg autocommit": _psycopg_autocommit,
    "psycopg async": _psycopg_async,
    "psycopg2": _psycopg2,
    "sqlalchemy": _sqlalchemy,
    "session": _session,
    "async session": _async_session,
    "django": _django,
}


def url_of(dsn: str, driver: str) -> sqlalchemy.URL:
    """The same database in SQLAlchemy's words. Sockets are a parameter there."""
    parts = urlsplit(dsn)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    host = {"host": parts.hostname} if parts.hostname else {}
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=parts.username,
        password=parts.password,
        port=parts.port,
        database=parts.path.strip("/"),
        query=query,
        **host,
    )


@contextmanager
def engine_on(dsn: str, driver: str = "psycopg", **options: Any) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(url_of(dsn, driver), **options)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def django_connection(dsn: str) -> Iterator[Any]:
    """A connection of this thread's to this database, as Django makes them."""
    from django.db import connections

    database = django_database(dsn)
    alias = f"db_{threading.get_ident()}_{database['NAME']}"
    connections.databases[alias] = connections.configure_settings({"default": {}, alias: database})[
        alias
    ]
    try:
        yield connections[alias]
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.databases[alias]


def django_database(dsn: str) -> dict[str, Any]:
    """An entry of Django's DATABASES."""
    from psycopg.conninfo import conninfo_to_dict

    found = conninfo_to_dict(dsn)
    names = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": found["dbname"],
        **{names[name]: str(found[name]) for name in names if name in found},
    }
