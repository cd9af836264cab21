"""Programs that submit a task in their own transaction, in each driver: write, submit, commit.

As a program: `python -m tests.integration.submitting DRIVER DSN` dies before its commit.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

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
Work = Callable[[str, str, Between], None]
# Each submits `<who>` and, within a savepoint that is rolled back, `<who>-undone`.
LOST = "-undone"


def _asyncpg(dsn: str, who: str, between: Between) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                await connection.execute(WRITE.format(who))
                await charge.options(connection=connection).submit(who)
                inner = connection.transaction()
                await inner.start()
                await charge.options(connection=connection).submit(who + LOST)
                await inner.rollback()
                between()
        finally:
            await connection.close()

    asyncio.run(work())


def _asyncpg_pool(dsn: str, who: str, between: Between) -> None:
    async def work() -> None:
        async with (
            asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
            pool.acquire() as connection,
            connection.transaction(),
        ):
            await connection.execute(WRITE.format(who))
            await charge.options(connection=connection).submit(who)
            inner = connection.transaction()
            await inner.start()
            await charge.options(connection=connection).submit(who + LOST)
            await inner.rollback()
            between()

    asyncio.run(work())


def _psycopg(dsn: str, who: str, between: Between) -> None:
    with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute(WRITE.format(who))
        charge.options(connection=connection).submit_sync(who)
        with connection.transaction(force_rollback=True):
            charge.options(connection=connection).submit_sync(who + LOST)
        between()


def _psycopg_autocommit(dsn: str, who: str, between: Between) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        connection.execute(WRITE.format(who))
        charge.options(connection=connection).submit_sync(who)
        with connection.transaction(force_rollback=True):
            charge.options(connection=connection).submit_sync(who + LOST)
        between()


def _psycopg_async(dsn: str, who: str, between: Between) -> None:
    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await connection.execute(WRITE.format(who))
            await charge.options(connection=connection).submit(who)
            async with connection.transaction(force_rollback=True):
                await charge.options(connection=connection).submit(who + LOST)
            between()

    asyncio.run(work())


def _psycopg2(dsn: str, who: str, between: Between) -> None:
    connection = psycopg2.connect(dsn)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(WRITE.format(who))
            charge.options(connection=connection).submit_sync(who)
            cursor.execute("SAVEPOINT inner_one")
            charge.options(connection=connection).submit_sync(who + LOST)
            cursor.execute("ROLLBACK TO SAVEPOINT inner_one")
            between()
    finally:
        connection.close()


def _sqlalchemy(dsn: str, who: str, between: Between) -> None:
    with engine_on(dsn) as engine, engine.begin() as connection:
        connection.execute(sqlalchemy.text(WRITE.format(who)))
        charge.options(connection=connection).submit_sync(who)
        with connection.begin_nested() as inner:
            charge.options(connection=connection).submit_sync(who + LOST)
            inner.rollback()
        between()


def _session(dsn: str, who: str, between: Between) -> None:
    with engine_on(dsn, "psycopg2") as engine, Session(engine) as session, session.begin():
        session.execute(sqlalchemy.text(WRITE.format(who)))
        charge.options(connection=session).submit_sync(who)
        with session.begin_nested() as inner:
            charge.options(connection=session).submit_sync(who + LOST)
            inner.rollback()
        between()


def _scoped_session(dsn: str, who: str, between: Between) -> None:
    with engine_on(dsn) as engine:
        session = scoped_session(sessionmaker(engine))
        session.execute(sqlalchemy.text(WRITE.format(who)))
        charge.options(connection=session).submit_sync(who)
        with session.begin_nested() as inner:
            charge.options(connection=session).submit_sync(who + LOST)
            inner.rollback()
        try:
            between()
            session.commit()
        finally:
            session.remove()


def _async_connection(dsn: str, who: str, between: Between) -> None:
    async def work() -> None:
        engine = create_async_engine(url_of(dsn, "psycopg"))
        try:
            async with engine.begin() as connection:
                await connection.execute(sqlalchemy.text(WRITE.format(who)))
                await charge.options(connection=connection).submit(who)
                async with connection.begin_nested() as inner:
                    await charge.options(connection=connection).submit(who + LOST)
                    await inner.rollback()
                between()
        finally:
            await engine.dispose()

    asyncio.run(work())


def _async_session(dsn: str, who: str, between: Between) -> None:
    async def work() -> None:
        engine = create_async_engine(url_of(dsn, "asyncpg"))
        try:
            async with AsyncSession(engine) as session, session.begin():
                await session.execute(sqlalchemy.text(WRITE.format(who)))
                await charge.options(connection=session).submit(who)
                async with session.begin_nested() as inner:
                    await charge.options(connection=session).submit(who + LOST)
                    await inner.rollback()
                between()
        finally:
            await engine.dispose()

    asyncio.run(work())


def _django(dsn: str, who: str, between: Between) -> None:
    from django.db import transaction

    with django_connection(dsn) as connection, transaction.atomic(using=connection.alias):
        with connection.cursor() as cursor:
            cursor.execute(WRITE.format(who))
        charge.options(connection=connection).submit_sync(who)
        with suppress(_Undone), transaction.atomic(using=connection.alias):
            charge.options(connection=connection).submit_sync(who + LOST)
            raise _Undone
        between()


class _Undone(Exception):
    """Ends a savepoint."""


WORKS: dict[str, Work] = {
    "asyncpg": _asyncpg,
    "asyncpg pool": _asyncpg_pool,
    "psycopg": _psycopg,
    "psycopg autocommit": _psycopg_autocommit,
    "psycopg async": _psycopg_async,
    "psycopg2": _psycopg2,
    "sqlalchemy": _sqlalchemy,
    "session": _session,
    "scoped session": _scoped_session,
    "async connection": _async_connection,
    "async session": _async_session,
    "django": _django,
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
    driver, dsn = arguments
    WORKS[driver](dsn, "dead", die)


if __name__ == "__main__":
    main(sys.argv[1:])
