"""Connections to PostgreSQL, and its failures translated into ours."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from gnomon.model.errors import StoreUnavailable, Unstorable
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]

# What says "not now" rather than "never": the server is gone, going, coming, or full.
_UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.TransactionRollbackError,  # deadlocks among them
    asyncpg.exceptions.LockNotAvailableError,
    asyncpg.exceptions.ReadOnlySQLTransactionError,  # a standby, in the middle of a failover
    asyncpg.exceptions.PostgresIOError,
    asyncpg.exceptions.InternalClientError,
    TimeoutError,
    OSError,
)

STATEMENT_SECONDS = 30.0
CONNECT_SECONDS = 5.0


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's ways of saying "unavailable" into the one that the engine knows."""
    try:
        yield
    except (asyncpg.DataError, asyncpg.CheckViolationError, ValueError) as error:
        # The driver refuses a value before it is sent, or the server does afterwards; an id that
        # has no partition is such a value.
        raise Unstorable(f"PostgreSQL cannot hold this: {error}") from error
    except _UNAVAILABLE as error:
        raise StoreUnavailable(f"PostgreSQL is unavailable: {error or type(error)}") from error


async def connect(dsn: str) -> "asyncpg.Connection[asyncpg.Record]":
    """A connection of one's own, for a listener or a lease."""
    with translated():
        return await asyncpg.connect(
            dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=STATEMENT_SECONDS,
            server_settings={"application_name": "gnomon", "timezone": "UTC"},
        )


async def _keep(_connection: object) -> None:
    """No session state is ever made, so a round trip to undo it after every statement is not
    needed."""


class Database:
    """The pool of one process. Statements are named by their file."""

    def __init__(self, dsn: str, size: int) -> None:
        self.dsn = dsn
        self._size = size
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def open(self) -> None:
        with translated():
            self._pool = await asyncpg.create_pool(
                self.dsn,
                min_size=1,
                max_size=self._size,
                timeout=CONNECT_SECONDS,
                command_timeout=STATEMENT_SECONDS,
                server_settings={"application_name": "gnomon", "timezone": "UTC"},
                reset=_keep,
            )

    async def close(self) -> None:
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await pool.close()
        except (TimeoutError, *_UNAVAILABLE):
            pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["Connection"]:
        """A pooled connection; each statement on it is its own transaction."""
        assert self._pool is not None, "the database is not open"
        with translated():
            async with self._pool.acquire(timeout=CONNECT_SECONDS) as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Connection"]:
        """A pooled connection in a transaction, committed when the context is left well."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def fetch(self, name: str, *args: Any) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return await connection.fetch(query(name), *args)

    async def fetchrow(self, name: str, *args: Any) -> asyncpg.Record | None:
        async with self.connection() as connection:
            return await connection.fetchrow(query(name), *args)

    async def execute(self, name: str, *args: Any) -> str:
        async with self.connection() as connection:
            return await connection.execute(query(name), *args)
