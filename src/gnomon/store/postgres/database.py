"""Connections to PostgreSQL, whose failures are translated into ours.

Whether a pooler is in between is found out here, and nobody else needs to know: behind one that
lends a server for no longer than a transaction, every statement brings its own.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import asyncpg
import structlog

from gnomon.model.fleet.tenant import is_tenant_id
from gnomon.observe.node_events import PoolUse
from gnomon.store.postgres.array_types import know_arrays
from gnomon.store.postgres.packed_arrays import pack_arrays
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.refusals import DRIVER_ERRORS, translated
from gnomon.store.postgres.reserve import Reserve

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]
    DriverConnection = asyncpg.Connection[asyncpg.Record]
else:
    DriverConnection = asyncpg.Connection

log = structlog.get_logger("gnomon.store")

STATEMENT_SECONDS = 30.0
CONNECT_SECONDS = 5.0
DISPATCHING = 3  # connections: a node claims while it settles, and settles beside a settlement
_UNDO_SECONDS = 1.0

# PostgreSQL compiles a statement anew each time that it believes it to be long. Of tables that were
# never analyzed it believes so, and that takes seconds of a processor. None is as long as that.
_NO_COMPILING = "jit = off"

_within: ContextVar[float | None] = ContextVar("statements_within", default=None)


@contextmanager
def statements_within(seconds: float) -> Iterator[None]:
    """Here PostgreSQL gives up each statement after so long: for reads that people wait for.

    The limit goes with a transaction, so that it holds behind a pooler, and nothing of it stays.
    """
    token = _within.set(seconds)
    try:
        yield
    finally:
        _within.reset(token)


def _limit() -> str | None:
    """What sets the limit in force, in a transaction."""
    seconds = _within.get()
    return None if seconds is None else f"SET LOCAL statement_timeout = {round(seconds * 1000)}"


class PoolerConnection(DriverConnection):
    """A connection through a pooler, which may give every transaction another server.

    The driver looks up types that it meets for the first time, in statements of their own: all of
    them in one transaction with what asked for them. Text without arguments is one round trip, and
    is left as it is, but for the settings that a transaction begins with; so is what cannot run in
    one.
    """

    _server_caps: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Else the driver changes that setting of the session while it looks up a type, and would
        # leave it so: it finds what the transaction has set.
        self._server_caps = self._server_caps._replace(jit=False)

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        if not args:
            begun = f"{query}; SET LOCAL {_NO_COMPILING}" if query.startswith("BEGIN") else query
            return await super().execute(begun, **options)
        return await self._in_transaction(super().execute, query, *args, **options)

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._in_transaction(super().fetch, query, *args, **options)

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._in_transaction(super().fetchrow, query, *args, **options)

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._in_transaction(super().fetchval, query, *args, **options)

    async def _in_transaction(
        self, run: Callable[..., Awaitable[Any]], *args: Any, **options: Any
    ) -> Any:
        if self.is_in_transaction():
            return await run(*args, **options)
        try:
            async with asyncio.timeout(options.pop("timeout", None)):
                await self.execute("BEGIN")
                result = await run(*args, **options)
                await super().execute("COMMIT")
                return result
        except BaseException:
            await _undo(self)
            raise


async def _undo(connection: "DriverConnection | Connection") -> None:
    """Roll back. One that does not answer is given up: to wait for it could take for ever, and
    whoever gets the connection next must find nothing of this transaction on it."""
    undone = False
    try:
        with contextlib.suppress(*DRIVER_ERRORS):
            async with asyncio.timeout(_UNDO_SECONDS):
                await connection.execute("ROLLBACK")
                undone = True
    finally:
        if not undone:
            connection.terminate()


_OPTIONS: dict[str, Any] = {
    "timeout": CONNECT_SECONDS,
    "command_timeout": STATEMENT_SECONDS,
    "server_settings": {"application_name": "gnomon", "timezone": "UTC", "datestyle": "ISO"},
    # The driver would prepare what is longer than 15 KiB anew for every call: settle.sql is.
    "max_cacheable_statement_size": 0,  # none is too long
}
# What was prepared on one server is not there on the next.
_THROUGH_POOLER: dict[str, Any] = {"connection_class": PoolerConnection, "statement_cache_size": 0}


async def connect(dsn: str) -> DriverConnection:
    """A connection of one's own, for a listener or a lease: a `PoolerConnection` where a pooler
    is in between."""
    with translated():
        connection: DriverConnection = await asyncpg.connect(dsn, **_OPTIONS)
        try:
            if not await _finds_pooler(connection):
                return connection
        except BaseException:
            connection.terminate()
            raise
        connection.terminate()
        through: DriverConnection = await asyncpg.connect(dsn, **_OPTIONS, **_THROUGH_POOLER)
        return through


def is_pooled(connection: DriverConnection) -> bool:
    """Of what `connect` gave. (The driver takes any of its connections for an instance of any.)"""
    return type(connection) is PoolerConnection


async def _finds_pooler(connection: DriverConnection) -> bool:
    """A pooler makes up the process id that a session is told at its start. The question is asked
    in one round trip, without preparing anything, so it is safe behind a pooler, too."""
    told = connection.get_server_pid()
    answer = await connection.execute(
        f"SELECT WHERE pg_backend_pid() <> {told}", timeout=CONNECT_SECONDS
    )
    return answer == "SELECT 1"


def _scope(tenant_id: str, wait_seconds: float | None) -> str:
    """What begins a tenant's transaction, in one round trip. All of it ends with it: nothing stays
    on the connection, nor on the server behind a pooler."""
    if not is_tenant_id(tenant_id):  # so it needs no quoting, either
        raise ValueError(f"{tenant_id!r} cannot be the id of a tenant")
    text = f"BEGIN; SET LOCAL ROLE gnomon_tenant; SET LOCAL gnomon.tenant = '{tenant_id}'"
    if wait_seconds is not None:
        text += f"; SET LOCAL lock_timeout = {round(wait_seconds * 1000)}"
    return text if (limit := _limit()) is None else f"{text}; {limit}"


async def _keep(_connection: object) -> None:
    """No session state is ever made, so a round trip to undo it after every statement is not
    needed."""


async def _make_ready(connection: Any) -> None:
    """For a new connection, not behind a pooler: what is set stays with it."""
    await know_arrays(connection)
    await connection.execute(f"SET {_NO_COMPILING}")


async def _make_ready_to_dispatch(connection: Any) -> None:
    """The same for one of the reserve. PostgreSQL would plan each of their
    statements five times by the values it is given, and then once without: they have one possible
    plan."""
    pack_arrays(connection)
    await know_arrays(connection)
    await connection.execute(f"SET {_NO_COMPILING}; SET plan_cache_mode = force_generic_plan")


class Database:
    """The connections of one process. Statements are named by their file.

    `direct` is the way to the same database that no pooler is in, if it is another one: for what
    needs a session, or must not wait for others. `reserved` of the `size` connections, and no more
    than half of them, are for claims, settlements and permits.
    """

    def __init__(
        self, dsn: str, size: int, direct: str | None = None, *, reserved: int = 0
    ) -> None:
        self.dsn = dsn
        self.direct = direct or dsn
        self._size = size
        self._reserved = min(reserved, size // 2)
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._reserve: Reserve | None = None
        self._waiting = 0  # who have asked for a connection, and have none yet

    async def open(self, *, quiet: bool = False) -> None:
        """Connect. `quiet`: for a command, whose output is its own."""
        found = [await connect(self.dsn)]
        pooled = is_pooled(found[0])
        if pooled and not quiet:
            log.info("a pooler is in between: every statement is sent in a transaction of its own")

        async def next_connection(*args: Any, **options: Any) -> DriverConnection:
            connection: DriverConnection
            connection = found.pop() if found else await asyncpg.connect(*args, **options)
            return connection

        try:
            with translated():
                await self._fill(next_connection, pooled=pooled)
        except BaseException:  # else what is open already would stay so
            await self.close()
            raise

    async def _fill(
        self, connect: Callable[..., Coroutine[Any, Any, DriverConnection]], *, pooled: bool
    ) -> None:
        # A pooler takes no settings of a session, and nothing stays prepared behind it.
        reserved = 0 if pooled else self._reserved
        self._pool = await asyncpg.create_pool(
            self.dsn,
            min_size=1,
            max_size=self._size - reserved,
            connect=connect,
            init=know_arrays if pooled else _make_ready,
            reset=_keep,
            **_OPTIONS,
            **(_THROUGH_POOLER if pooled else {}),
        )
        if reserved:
            pool = await asyncpg.create_pool(
                self.dsn,
                # A settlement must not wait for a connection that a full server refuses: all are
                # open from the start, and are closed neither for being idle nor for their age.
                min_size=reserved,
                max_size=reserved,
                max_inactive_connection_lifetime=0.0,
                max_queries=sys.maxsize,
                init=_make_ready_to_dispatch,
                reset=_keep,
                **_OPTIONS,
            )
            self._reserve = Reserve(pool, reserved)

    async def close(self) -> None:
        pools = self._pools()
        self._pool = self._reserve = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for pool in pools:
                    await pool.close()
        except DRIVER_ERRORS:
            pass  # they are not waited for
        finally:
            for pool in pools:
                pool.terminate()

    def _pools(self) -> list["asyncpg.Pool[asyncpg.Record]"]:
        kept = None if self._reserve is None else self._reserve.pool
        return [pool for pool in (self._pool, kept) if pool is not None]

    def connection(self) -> AbstractAsyncContextManager["Connection"]:
        """A pooled connection; each statement on it is its own transaction, except where they
        have a limit: there it is one for all."""
        return self._acquired() if _within.get() is None else self.transaction()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Connection"]:
        """A pooled connection in a transaction, committed when the context is left well."""
        async with self._acquired() as connection, connection.transaction():
            if (limit := _limit()) is not None:
                await connection.execute(limit)
            yield connection

    @asynccontextmanager
    async def reserved(self, leaving: int = 0) -> AsyncIterator["Connection"]:
        """A connection for claims, settlements and permits: one of the reserve, if one is free and
        so many others stay so, and else as `connection`. A new connection costs PostgreSQL 15 ms
        for its first claim and settlement, and 11 ms for its first permits, so few are to have
        them."""
        reserve = self._reserve if _within.get() is None else None
        drawn = None if reserve is None else await reserve.draw(CONNECT_SECONDS, leaving)
        if reserve is None or drawn is None:
            async with self.connection() as connection:
                yield connection
            return
        try:
            with translated():
                yield drawn
        finally:
            await reserve.give_back(drawn)

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator["Connection"]:
        pool = self._pool
        assert pool is not None, "the database is not open"
        with translated():
            self._waiting += 1
            try:
                connection = await pool.acquire(timeout=CONNECT_SECONDS)
            finally:
                self._waiting -= 1
            try:
                yield connection
            finally:
                await pool.release(connection)

    @asynccontextmanager
    async def scoped(
        self, tenant_id: str, wait_seconds: float | None = None
    ) -> AsyncIterator["Connection"]:
        """A transaction that is shown the rows of one tenant, and can change no others, whatever
        its statements forget. It waits for a lock for `wait_seconds` at the most."""
        begin = _scope(tenant_id, wait_seconds)
        async with self._acquired() as connection:
            try:
                await connection.execute(begin)
                yield connection
                done = await connection.execute("COMMIT")
                assert done == "COMMIT", "a statement failed, and nobody minded"
            except BaseException:
                await _undo(connection)
                raise

    def use(self) -> PoolUse:
        """How the connections are used now."""
        pools = self._pools()
        size, idle = sum(p.get_size() for p in pools), sum(p.get_idle_size() for p in pools)
        waiting = self._waiting + (0 if self._reserve is None else self._reserve.waiting)
        return PoolUse(size - idle, idle, self._size, waiting)

    async def fetch(self, name: str, *args: Any) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return await connection.fetch(query(name), *args)

    async def fetch_within(self, seconds: float, name: str, *args: Any) -> list[asyncpg.Record]:
        """The same for what must not wait for long. Given up after so many seconds, and with it the
        connection: one that does not answer would not answer to a cancelling, either, and whoever
        asks next must not be given it."""
        with translated():
            async with asyncio.timeout(seconds), self.connection() as connection:
                try:
                    return await connection.fetch(query(name), *args)
                except asyncio.CancelledError:
                    # Behind a pooler it may have been given up already, with its transaction.
                    with contextlib.suppress(asyncpg.InterfaceError):
                        connection.terminate()
                    raise

    async def fetchrow(self, name: str, *args: Any) -> asyncpg.Record | None:
        async with self.connection() as connection:
            return await connection.fetchrow(query(name), *args)

    async def execute(self, name: str, *args: Any) -> str:
        async with self.connection() as connection:
            return await connection.execute(query(name), *args)
