"""A PostgreSQL that belongs to somebody: measures have one database of their own there, and leave
nothing behind.

The database's name says that it may be dropped. A run that was killed leaves it; the next one drops
it. Runs exclude each other by a lock on the connection that makes and drops it.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from gnomon.bench.arena import Arena
from gnomon.bench.results import BenchError
from gnomon.model.errors import StoreError
from gnomon.store.embedded.roles import USER
from gnomon.store.postgres.database import connect, is_pooled
from gnomon.store.postgres.refusals import DRIVER_ERRORS, of_driver, translated
from gnomon.wiring.processes import prepare

DATABASE = "gnomon_bench_may_be_dropped"
_DROP_SECONDS = 60.0
_STANDING = """
SELECT rolcreatedb OR rolsuper AS may_create, rolname, pg_is_in_recovery() AS is_standby,
    current_setting('server_version') AS version
FROM pg_roles WHERE rolname = current_user
"""
_TENANT = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gnomon_tenant')"
_LOCK = "SELECT pg_try_advisory_lock(hashtextextended('gnomon bench', 0))"
_NODES = "SELECT count(*) FROM gnomon.node WHERE NOT dead AND alive_until > gnomon.now()"


class BenchServer:
    """The server at an address. It is only ever connected to the database there to make and to drop
    the one for measures."""

    def __init__(self, dsn: str, folder: Path, *, is_ours: bool = False) -> None:
        self._dsn = dsn
        self._is_ours = is_ours
        self._folder = folder
        self._own_dsn = _on_database(dsn, DATABASE)
        self._made = 0
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def check(self) -> str:
        """The server's version. BenchError where no database can be made."""
        async with _connection(self._dsn) as connection:
            found = await connection.fetchrow(_STANDING)
        assert found is not None
        if found["is_standby"]:
            raise BenchError("this server is a standby: measure on its primary")
        if not found["may_create"]:
            role = found["rolname"]
            raise BenchError(
                f"measures need a database of their own, and the role {role} may not create one: "
                f'let an administrator run ALTER ROLE "{role}" CREATEDB, or name another role in '
                "DATABASE_URL"
            )
        return str(found["version"])

    async def nodes(self) -> int | None:
        """How many nodes work on the database at the address; None: this role may not see it."""
        async with _connection(self._dsn) as connection:
            try:
                if await connection.fetchval("SELECT to_regclass('gnomon.node') IS NULL"):
                    return 0
                return int(await connection.fetchval(_NODES))
            except asyncpg.InsufficientPrivilegeError:
                return None

    @asynccontextmanager
    async def reserved(self) -> AsyncIterator[None]:
        """Whoever is in here is the only run on this server. What it does to the whole server goes
        over one connection: when that is lost, and the lock with it, nothing more is dropped."""
        async with _administration(self._dsn) as connection:
            # A session of a pooler is anybody's.
            if not is_pooled(connection) and not await connection.fetchval(_LOCK):
                raise BenchError("another `gnomon bench` runs on this server")
            had_tenant = await connection.fetchval(_TENANT)
            self._connection = connection
            try:
                yield
            finally:
                if not had_tenant and not connection.is_closed():
                    await _to_its_end(self._drop_tenant())

    @asynccontextmanager
    async def arena(self) -> AsyncIterator[Arena]:
        """The database for measures, new, and dropped afterwards."""
        await self._drop_left()
        try:
            await self._execute(f"CREATE DATABASE {DATABASE} TEMPLATE template0")
            self._made += 1
            folder = self._folder / str(self._made)
            folder.mkdir()
            async with _connection(self._own_dsn) as connection:
                await prepare(self._own_dsn)
                yield Arena(self._own_dsn, folder, connection, checkpoints=self._is_ours)
        except DRIVER_ERRORS as error:
            raise of_driver(error) from error
        finally:
            await _to_its_end(self._drop())

    async def _drop_left(self) -> None:
        try:
            await self._execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.ObjectInUseError):
                raise
            raise BenchError(
                f"another `gnomon bench` runs on this server: its database {DATABASE} is in use"
            ) from error

    async def _drop(self) -> None:
        try:
            try:
                await self._execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
            except StoreError as error:
                if not isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
                    raise
                # A worker of autovacuum is there, which only this ends.
                await self._execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        except StoreError as error:
            raise BenchError(
                f"{error}; the database {DATABASE} is left, and the next `gnomon bench` drops it"
            ) from error

    async def _drop_tenant(self) -> None:
        """Drop the role that migrations made, unless somebody needs it by now."""
        try:
            await self._execute("DROP ROLE IF EXISTS gnomon_tenant")
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.DependentObjectsStillExistError):
                raise

    async def _execute(self, statement: str) -> None:
        assert self._connection is not None
        with translated():
            await self._connection.execute(statement, timeout=_DROP_SECONDS)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do it even if who waits for it is stopped meanwhile."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


@asynccontextmanager
async def _administration(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to the database that all have in common, where there is one: a lock holds for
    those in the same database."""
    try:
        connection = await connect(_on_database(dsn, "postgres"))
    except StoreError:
        connection = await connect(dsn)
    try:
        yield connection
    finally:
        connection.terminate()


def _on_database(dsn: str, name: str) -> str:
    """The address of another database of the same server. (An empty host is kept: it says that the
    query has a socket.)"""
    parts = urlsplit(dsn)
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}/{name}{query}"


async def may_create_databases(superuser_dsn: str) -> None:
    """Let the role of an embedded server do what measures need, and it may not do otherwise."""
    async with _connection(superuser_dsn) as connection:
        await connection.execute(f"ALTER ROLE {USER} CREATEDB; GRANT pg_checkpoint TO {USER}")


@asynccontextmanager
async def _connection(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await connect(dsn)
    try:
        yield connection
    finally:
        connection.terminate()
