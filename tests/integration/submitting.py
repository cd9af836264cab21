"""Programs that submit a task in their own transaction, in each driver: write, submit, commit.

As a program, `python -m tests.integration.submitting DSN`: one process for each driver, which dies
before its commit.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Any, NamedTuple

import asyncpg
import psycopg
import psycopg2
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from tests.integration.receiving import django_connection, engine_on, url_of

from gnomon import Gnomon

WRITE = "INSERT INTO public.effect (who) VALUES ('{}')"

app = Gnomon()


@app.task
async def charge(order: str) -> str:
    return order


class RolledBack(Exception):
    """The program's own reason not to commit."""


# What a program does before it commits: nothing, die, or raise.
Between = Callable[[], None]
# Each submits `<who>` and, within a savepoint that is rolled back, `<who>-undone`.
LOST = "-undone"


class Driver(NamedTuple):
    """One that blocks. A connection is whatever `options(connection=…)` takes."""

    transaction: Callable[[str], AbstractContextManager[Any]]  # on a DSN; commits at its end
    execute: Callable[[Any, str], object]
    undone: Callable[[Any], AbstractContextManager[object]]  # a savepoint, which is rolled back

    def work(self, dsn: str, who: str, between: Between) -> None:
        with self.transaction(dsn) as connection:
            self.execute(connection, WRITE.format(who))
            charge.options(connection=connection).submit_sync(who)
            with self.undone(connection):
                charge.options(connection=connection).submit_sync(who + LOST)
            between()


class AsyncDriver(NamedTuple):
    """The same with asyncio."""

    transaction: Callable[[str], AbstractAsyncContextManager[Any]]
    execute: Callable[[Any, str], Any]
    undone: Callable[[Any], AbstractAsyncContextManager[object]]

    def work(self, dsn: str, who: str, between: Between) -> None:
        asyncio.run(self._work(dsn, who, between))

    async def _work(self, dsn: str, who: str, between: Between) -> None:
        async with self.transaction(dsn) as connection:
            await self.execute(connection, WRITE.format(who))
            await charge.options(connection=connection).submit(who)
            async with self.undone(connection):
                await charge.options(connection=connection).submit(who + LOST)
            between()


def _plainly(connection: Any, statement: str) -> Any:
    return connection.execute(statement)


def _as_text(connection: Any, statement: str) -> Any:
    return connection.execute(sqlalchemy.text(statement))


def _by_cursor(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


# asyncpg


@asynccontextmanager
async def _asyncpg(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _asyncpg_pool(dsn: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def _asyncpg_undone(connection: Any) -> AsyncIterator[None]:
    inner = connection.transaction()
    await inner.start()
    yield
    await inner.rollback()


# psycopg and psycopg2


def _psycopg(dsn: str) -> AbstractContextManager[Any]:
    return psycopg.connect(dsn, row_factory=psycopg.rows.dict_row)


@contextmanager
def _psycopg_autocommit(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _psycopg_async(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection


def _psycopg_undone(connection: Any) -> Any:
    return connection.transaction(force_rollback=True)


@contextmanager
def _psycopg2(dsn: str) -> Iterator[Any]:
    connection = psycopg2.connect(dsn)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def _psycopg2_undone(connection: Any) -> Iterator[None]:
    _by_cursor(connection, "SAVEPOINT inner_one")
    yield
    _by_cursor(connection, "ROLLBACK TO SAVEPOINT inner_one")


# SQLAlchemy


@contextmanager
def _sqlalchemy(dsn: str) -> Iterator[Any]:
    with engine_on(dsn) as engine, engine.begin() as connection:
        yield connection


@contextmanager
def _session(dsn: str) -> Iterator[Any]:
    with engine_on(dsn, "psycopg2") as engine, Session(engine) as session, session.begin():
        yield session


@contextmanager
def _scoped_session(dsn: str) -> Iterator[Any]:
    with engine_on(dsn) as engine:
        session = scoped_session(sessionmaker(engine))
        try:
            yield session
            session.commit()
        finally:
            session.remove()


@contextmanager
def _sqlalchemy_undone(connection: Any) -> Iterator[None]:
    with connection.begin_nested() as inner:
        yield
        inner.rollback()


@asynccontextmanager
async def _async_connection(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(url_of(dsn, "psycopg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _async_session(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(url_of(dsn, "asyncpg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@asynccontextmanager
async def _async_sqlalchemy_undone(connection: Any) -> AsyncIterator[None]:
    async with connection.begin_nested() as inner:
        yield
        await inner.rollback()


# Django


class _Undone(Exception):
    """Ends a savepoint."""


@contextmanager
def _django(dsn: str) -> Iterator[Any]:
    from django.db import transaction

    with django_connection(dsn) as connection, transaction.atomic(using=connection.alias):
        yield connection


@contextmanager
def _django_undone(connection: Any) -> Iterator[None]:
    from django.db import transaction

    with suppress(_Undone), transaction.atomic(using=connection.alias):
        yield
        raise _Undone


DRIVERS: dict[str, Driver | AsyncDriver] = {
    "asyncpg": AsyncDriver(_asyncpg, _plainly, _asyncpg_undone),
    "asyncpg pool": AsyncDriver(_asyncpg_pool, _plainly, _asyncpg_undone),
    "psycopg": Driver(_psycopg, _plainly, _psycopg_undone),
    "psycopg autocommit": Driver(_psycopg_autocommit, _plainly, _psycopg_undone),
    "psycopg async": AsyncDriver(_psycopg_async, _plainly, _psycopg_undone),
    "psycopg2": Driver(_psycopg2, _by_cursor, _psycopg2_undone),
    "sqlalchemy": Driver(_sqlalchemy, _as_text, _sqlalchemy_undone),
    "session": Driver(_session, _as_text, _sqlalchemy_undone),
    "scoped session": Driver(_scoped_session, _as_text, _sqlalchemy_undone),
    "async connection": AsyncDriver(_async_connection, _as_text, _async_sqlalchemy_undone),
    "async session": AsyncDriver(_async_session, _as_text, _async_sqlalchemy_undone),
    "django": Driver(_django, _by_cursor, _django_undone),
}


def go_on() -> None:
    """Commit."""


def roll_back() -> None:
    raise RolledBack


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[Any]) -> None:
    import django
    from django.conf import settings

    settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()
    (dsn,) = arguments
    for name, driver in DRIVERS.items():
        child = os.fork()
        if child == 0:
            driver.work(dsn, f"dead {name}", die)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, name


if __name__ == "__main__":
    main(sys.argv[1:])
