"""Dead letters: groups by error, pages of those that are resolved, and missing fingerprints."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from gnomon.model.outcomes import fingerprint
from gnomon.store.ports.insight.stats import MOST_COUNTED, CappedCount
from gnomon.store.ports.work.dead_letters import (
    BEFORE_ALL_GROUPS,
    BEFORE_ALL_RESOLVED,
    HOURS,
    MOST_GROUPS,
    MOST_MEMBERS,
    DeadGroup,
    GroupCursor,
    GroupPage,
    LastFailure,
    ResolvedCursor,
    ResolvedPage,
)
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.expired_rows import BY_INDEX
from gnomon.store.postgres.rows import readable, task_of
from gnomon.store.postgres.tasks.reading import IN_ORDER, filter_columns

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


class PostgresDeadLetters:
    """Reads the dead letters of a tenant, and works out the fingerprints that are missing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(
        self,
        tenant_id: str,
        task_type: str | None = None,
        only: int | None = None,
        cursor: GroupCursor | None = None,
        limit: int = 50,
    ) -> GroupPage:
        """Groups of those that are not resolved, the one with the newest death first: of one type,
        or with one fingerprint only."""
        first, last = 0, fingerprint.HIGHEST
        if only is not None:
            first = last = only
        elif task_type is not None:
            first, last = fingerprint.of_type(task_type)
        after = cursor or BEFORE_ALL_GROUPS
        async with self._by_index(tenant_id) as connection:
            rows = await connection.fetch(
                query("dead_groups"),
                tenant_id,
                first,
                last,
                after.last_seen,
                after.fingerprint,
                limit + 1,
                MOST_GROUPS,
                MOST_MEMBERS + 1,
                task_type,
            )
            ungrouped = await _count(connection, tenant_id, None, MOST_MEMBERS)
        groups = [_group_of(row) for row in rows]
        stopped = None
        if len(groups) > limit:
            stopped = GroupCursor(groups[limit - 1].last_seen, groups[limit - 1].fingerprint)
        return GroupPage(
            groups=groups[:limit],
            next_cursor=stopped,
            capped=bool(rows) and rows[0]["looked_at"] == MOST_GROUPS,
            ungrouped=ungrouped,
        )

    async def count(self, tenant_id: str, value: int) -> CappedCount:
        """How many there are in a group, counted as far as by a bulk operation."""
        async with self._by_index(tenant_id) as connection:
            return await _count(connection, tenant_id, value, MOST_COUNTED)

    async def resolved(
        self, tenant_id: str, chosen: TaskFilter, cursor: ResolvedCursor | None, limit: int
    ) -> ResolvedPage:
        """Those that are resolved, the last resolved first."""
        after = cursor or BEFORE_ALL_RESOLVED
        async with self._by_index(tenant_id) as connection:
            rows = await connection.fetch(
                query("list_resolved"),
                tenant_id,
                after.resolved_at,
                after.task_id,
                limit + 1,
                *filter_columns(chosen),
                chosen.fingerprint,
            )
        shown = [row for row in rows[:limit] if row["stopped_at"] is None]
        stopped = None
        if rows and rows[-1]["stopped_at"] is not None:
            stopped = ResolvedCursor(rows[-1]["stopped_resolved_at"], rows[-1]["stopped_at"])
        elif len(rows) > limit:
            stopped = ResolvedCursor(shown[-1]["resolved_at"], shown[-1]["id"])
        return ResolvedPage(readable(shown, task_of, "task"), stopped)

    async def last_failures(self, tenant_id: str, ids: Sequence[UUID]) -> dict[UUID, LastFailure]:
        """How the last executions of these tasks have failed."""
        async with self._by_index(tenant_id) as connection:
            rows = await connection.fetch(query("last_tracebacks"), tenant_id, ids)
        return {task_id: LastFailure(*rest) for task_id, *rest in rows}

    async def fingerprint_some(self, most: int) -> int:
        """Work out fingerprints that are missing, of all tenants; gives how many. Those that others
        are about to change are passed over."""
        async with self._database.transaction() as connection:
            await connection.execute(BY_INDEX)
            rows = await connection.fetch(query("unknown_dead"), most)
            if rows:
                named = await asyncio.to_thread(_named, rows)  # others need the loop
                await connection.execute(query("set_fingerprints"), *named)
        return len(rows)

    @asynccontextmanager
    async def _by_index(self, tenant_id: str) -> AsyncIterator["Connection"]:
        async with self._database.scoped(tenant_id) as connection:
            await connection.execute(IN_ORDER)
            yield connection


async def _count(
    connection: "Connection", tenant_id: str, value: int | None, most: int
) -> CappedCount:
    found: int = await connection.fetchval(query("count_group"), tenant_id, value, most + 1)
    return CappedCount(min(found, most), found > most)


def _group_of(row: asyncpg.Record) -> DeadGroup:
    deaths = dict(zip(row["hours"], row["deaths"], strict=True))
    found: int = row["number"]
    return DeadGroup(
        fingerprint=row["fingerprint"],
        task_type=row["task_type"],
        error=fingerprint.normalised(row["last_error"]),
        count=CappedCount(min(found, MOST_MEMBERS), found > MOST_MEMBERS),
        first_seen=row["first_seen"],
        last_seen=row["last_seen"],
        example=row["example"],
        hours=tuple(deaths.get(hour, 0) for hour in reversed(range(HOURS))),
    )


def _named(rows: Sequence[asyncpg.Record]) -> tuple[list[Any], ...]:
    return (
        [row["tenant_id"] for row in rows],
        [row["id"] for row in rows],
        [fingerprint.fingerprint(row["task_type"], row["last_error"]) for row in rows],
    )
