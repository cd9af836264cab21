"""The roster and the singleton chores on PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from gnomon.clock import Clock, SystemClock
from gnomon.model.errors import LeaseLost, StoreError
from gnomon.model.fleet.pool import EVERYTHING, Pool, Work
from gnomon.model.fleet.retention import RowKind
from gnomon.store.ports.roster import AppVersion, NodeKind, NodeRecord, Removal
from gnomon.store.postgres.database import Database, connect
from gnomon.store.postgres.dispatch.pools import pool_of, serves_of, unserved
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.refusals import translated
from gnomon.store.postgres.retention import old_partitions, partitions
from gnomon.store.postgres.retention.expired_rows import ExpiredRows
from gnomon.store.postgres.retention.needed import Memory
from gnomon.version import VERSION


class PostgresRoster:
    """`RosterStore` on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def join(
        self,
        incarnation: UUID,
        name: str,
        slots: int,
        lease: float,
        pool: Pool = EVERYTHING,
        app: AppVersion | None = None,
        kind: NodeKind = NodeKind.NODE,
    ) -> datetime:
        row = await self._database.fetchrow(
            "join_roster", incarnation, name, VERSION, slots, lease, serves_of(pool, app), kind
        )
        assert row is not None, "INSERT ... RETURNING gives its row"
        joined: datetime = row["now"]
        return joined

    async def renew(self, incarnation: UUID, lease: float) -> datetime:
        row = await self._database.fetchrow("renew", incarnation, lease)
        return _renewed(row, incarnation)

    async def leave(self, incarnation: UUID) -> None:
        await self._database.execute("leave_roster", incarnation)

    async def roster(self) -> list[NodeRecord]:
        rows = await self._database.fetch("roster")
        return [_record(**row) for row in rows]

    async def decides(self, app: AppVersion) -> bool:
        """Whether this version of an app decides on what it declares."""
        row = await self._database.fetchrow("deciding_version", app.name, app.tenant_id)
        return row is not None and row["version"] == app.version

    async def unserved(self) -> list[Work]:
        async with self._database.connection() as connection:
            return await unserved(connection)

    async def declare_dead(self, incarnation: UUID, beat: int) -> bool:
        return await self._database.fetchrow("declare_dead", incarnation, beat) is not None


def _record(serves: str | None, kind: int, **row: Any) -> NodeRecord:
    return NodeRecord(**row, pool=pool_of(serves), kind=NodeKind(kind))


class LeaseConnection:
    """Renews over a connection that nothing else uses, so that no queue can delay a lease."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def renew(self, incarnation: UUID, lease: float) -> float:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._dsn)
        try:
            with translated():
                row = await self._connection.fetchrow(
                    query("renew"), incarnation, lease, timeout=lease / 2
                )
        except StoreError:
            # One that did not answer in time would first wait for its own cancelling.
            self._connection.terminate()
            raise
        _renewed(row, incarnation)
        return lease

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


def _renewed(row: asyncpg.Record | None, incarnation: UUID) -> datetime:
    if row is None:
        raise LeaseLost(f"node incarnation {incarnation} was declared dead")
    now: datetime = row["now"]
    return now


class PostgresChores:
    """Does the chores that one node does for all: holds them, makes and drops partitions, removes
    expired rows."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._expired = ExpiredRows(database)
        self._memory = Memory()

    async def hold(self, chore: str, incarnation: UUID, seconds: float) -> bool:
        """Take or keep a chore. False while another node holds it."""
        row = await self._database.fetchrow("hold_chore", chore, incarnation, seconds)
        return row is not None

    async def make_partitions(self) -> list[str]:
        """Make the partitions of the days ahead; gives the new ones."""
        async with self._own_connection() as connection:
            now = await connection.fetchval("SELECT gnomon.now()")
            return await partitions.make(connection, now.date())

    async def drop_partitions(self, retention_days: float) -> list[str]:
        """Drop those whose tasks are all past retention, and what is past it elsewhere."""
        async with self._own_connection() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            cutoff = now - timedelta(days=retention_days)
            return await old_partitions.drop(connection, cutoff, self._clock, self._memory)

    async def remove(self, kind: RowKind, most: int, retention_days: float) -> Removal:
        """Remove rows past their time, at most so many at once."""
        return await self._expired.remove(kind, most, retention_days)

    @asynccontextmanager
    async def _own_connection(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """DDL waits for locks; it must not hold a connection that the engine needs meanwhile."""
        connection = await connect(self._database.direct)
        try:
            with translated():
                yield connection
        finally:
            connection.terminate()
