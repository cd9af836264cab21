"""Rows past their time, removed a batch at a time.

A batch is one short transaction over the index that has the rows in the order of their end. It goes
on where the one before it stopped: while an old snapshot keeps dead rows from being cleaned up,
nobody walks over them again and again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from gnomon.model.fleet.retention import RowKind
from gnomon.model.ids import lowest_id
from gnomon.store.ports.insight.activity import MINUTES_KEPT
from gnomon.store.ports.insight.levels import LEVEL_WEEKS
from gnomon.store.ports.roster import Removal
from gnomon.store.ports.tenancy.usage import KEPT_DAYS
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

# One plan, whatever is known of the table: it may be full of dead rows, and never analyzed.
BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
# A process that stands still in the middle holds its locks no longer than this.
_CUT_OFF = "SET LOCAL idle_in_transaction_session_timeout = '5s'"
# How often the keys are looked through from the first one on, for those that were passed over
# because somebody had them locked, or because they were committed late.
_KEY_PASSES = 20
_FROM_THE_BEGINNING = ("", UUID(int=0))


class ExpiredRows:
    """Removes expired rows, and remembers where it stopped."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._keys_from: datetime | None = None
        self._key_passes = 0
        self._events_from = _FROM_THE_BEGINNING
        self._buckets_after = 0
        self._transitions_from: datetime | None = None
        self._removers: dict[RowKind, Callable[[int, float], Awaitable[Removal]]] = {
            RowKind.KEYS: self._keys,
            RowKind.EVENTS: self._events,
            RowKind.BUCKETS: self._buckets,
            RowKind.USAGE: self._usage,
            RowKind.SESSIONS: self._sessions,
            RowKind.NODES: self._nodes,
            RowKind.PROGRESS: self._progress,
            RowKind.BULK_OPERATIONS: self._bulk_operations,
            RowKind.ACTIVITY: self._activity,
            RowKind.RESOLUTIONS: self._resolutions,
            RowKind.LEVELS: self._levels,
            RowKind.TRANSITIONS: self._transitions,
            RowKind.COPIES: self._copies,
            RowKind.RUNS: self._runs,
            RowKind.BATCHES: self._batches,
        }

    async def remove(self, kind: RowKind, most: int, retention_days: float) -> Removal:
        return await self._removers[kind](most, retention_days)

    async def _keys(self, most: int, _retention_days: float) -> Removal:
        async with self._by_index() as connection:
            row = await connection.fetchrow(query("remove_keys"), self._keys_from, most)
        assert row is not None, "a count is always there"
        if row["reached"] is not None:
            self._keys_from = row["reached"]
        more = row["removed"] == most
        if not more:
            self._key_passes += 1
            if self._key_passes % _KEY_PASSES == 0:
                self._keys_from = None
        return Removal(row["removed"], more)

    async def _events(self, most: int, retention_days: float) -> Removal:
        await PostgresEventLog(self._database).number()
        async with self._by_index() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            first_kept = lowest_id(now - timedelta(days=retention_days))
            row = await connection.fetchrow(
                query("remove_events"), first_kept, most, *self._events_from
            )
        if row is None or row["removed"] < most:
            self._events_from = _FROM_THE_BEGINNING
            return Removal(0 if row is None else row["removed"], False)
        self._events_from = (row["tenant_id"], row["id"])
        return Removal(row["removed"], True)

    async def _buckets(self, most: int, _retention_days: float) -> Removal:
        """Examines so many buckets, oldest first, and starts again after the last."""
        removed = 0
        async with self._by_index() as connection:
            row = await connection.fetchrow(query("idle_buckets"), self._buckets_after, most)
            assert row is not None, "a count is always there"
            if row["idle"]:
                held = await connection.fetch(query("hold_buckets"), row["idle"])
                ids = [each["id"] for each in held]
                await connection.execute(
                    "SELECT gnomon.drop_dead_leases(id) FROM unnest($1::bigint[]) AS id", ids
                )
                removed = _count(await connection.execute(query("remove_buckets"), ids))
        more = row["looked_at"] == most
        self._buckets_after = row["last"] if more else 0
        return Removal(removed, more)

    async def _usage(self, most: int, _retention_days: float) -> Removal:
        async with self._by_index() as connection:
            removed = _count(await connection.execute(query("remove_usage"), KEPT_DAYS, most))
        return Removal(removed, removed == most)

    async def _sessions(self, most: int, _retention_days: float) -> Removal:
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(query("gather_usage"), most)
        assert row is not None, "a count is always there"
        return Removal(row["gathered"], row["gathered"] == most)

    async def _nodes(self, most: int, _retention_days: float) -> Removal:
        async with self._by_index() as connection:
            removed = _count(await connection.execute(query("remove_nodes"), most))
        return Removal(removed, removed == most)

    async def _progress(self, most: int, _retention_days: float) -> Removal:
        async with self._by_index() as connection:
            removed = _count(await connection.execute(query("remove_progress"), most))
        return Removal(removed, removed == most)

    async def _bulk_operations(self, most: int, retention_days: float) -> Removal:
        return await self._by_id("remove_bulk_operations", most, retention_days)

    async def _copies(self, most: int, retention_days: float) -> Removal:
        return await self._by_id("remove_copies", most, retention_days)

    async def _runs(self, most: int, retention_days: float) -> Removal:
        """What is left of a run is removed once its nodes are: so there is more while any was."""
        async with self._by_index() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            ended_before = now - timedelta(days=retention_days)
            removed: int = await connection.fetchval(query("remove_runs"), ended_before, most)
        return Removal(removed, removed > 0)

    async def _batches(self, most: int, retention_days: float) -> Removal:
        async with self._by_index() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            ended_before = now - timedelta(days=retention_days)
            answer = await connection.execute(query("remove_batches"), ended_before, most)
        removed = _count(answer)
        return Removal(removed, removed == most)

    async def _by_id(self, statement: str, most: int, retention_days: float) -> Removal:
        async with self._by_index() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            first_kept = lowest_id(now - timedelta(days=retention_days))
            answer = await connection.execute(query(statement), first_kept, most)
        removed = _count(answer)
        return Removal(removed, removed == most)

    async def _activity(self, most: int, retention_days: float) -> Removal:
        async with self._by_index() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            hours_from = now - timedelta(days=retention_days)
            minutes_from = max(hours_from, now - MINUTES_KEPT)
            answer = await connection.execute(
                query("remove_activity"), minutes_from, hours_from, most
            )
        removed = _count(answer)
        return Removal(removed, removed == most)

    async def _resolutions(self, most: int, retention_days: float) -> Removal:
        async with self._by_index() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            first_kept = now - timedelta(days=retention_days)
            answer = await connection.execute(query("remove_resolutions"), first_kept, most)
        removed = _count(answer)
        return Removal(removed, removed == most)

    async def _levels(self, most: int, _retention_days: float) -> Removal:
        async with self._by_index() as connection:
            removed = _count(await connection.execute(query("remove_levels"), LEVEL_WEEKS, most))
        return Removal(removed, removed == most)

    async def _transitions(self, most: int, retention_days: float) -> Removal:
        async with self._by_index() as connection:
            now: datetime = await connection.fetchval("SELECT gnomon.now()")
            row = await connection.fetchrow(
                query("remove_transitions"),
                self._transitions_from,
                now - timedelta(days=retention_days),
                most,
            )
        assert row is not None, "a count is always there"
        more = row["removed"] == most
        # What is committed late may lie before the place: the next pass begins at the first one.
        self._transitions_from = row["reached"] if more else None
        return Removal(row["removed"], more)

    @asynccontextmanager
    async def _by_index(self) -> AsyncIterator["Connection"]:
        async with self._database.transaction() as connection:
            await connection.execute(f"{BY_INDEX}; {_CUT_OFF}")
            yield connection


def _count(answer: str) -> int:
    return int(answer.rpartition(" ")[2])
