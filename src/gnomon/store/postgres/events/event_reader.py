"""Events on PostgreSQL: written by the watchdog's statement, read in pages."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.model.insight.event_kinds import (
    GOOD_NEWS,
    INSTALLATION,
    KINDS,
    SLA_MISSED,
    of_severities,
)
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.events import SlaMissed
from gnomon.store.ports.insight.events import EventFilter, EventRecord, EventRecordPage, Judged
from gnomon.store.ports.insight.levels import LevelCounts, LevelKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.events.event_rows import event_of
from gnomon.store.postgres.levels.level_store import add_levels, week_of
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

MOST_OPEN = 100  # counted
_AFTER_ALL = UUID(int=(1 << 128) - 1)
# A start that was made in time, by a statement that is still under way, is not seen yet.
_COMMIT_SECONDS = 1.0


class PostgresEvents:
    """Reads the events of a tenant, or those of the installation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, tenant_id: str, chosen: EventFilter, cursor: UUID | None, limit: int
    ) -> EventRecordPage:
        """Events older than `cursor`, newest first."""
        async with self._shown(tenant_id) as connection:
            rows = await connection.fetch(
                query("list_events"),
                tenant_id,
                cursor or _AFTER_ALL,
                limit + 1,
                chosen.kind,
                chosen.cron_job_id,
                chosen.acknowledged,
                chosen.task_type,
                *_severities(chosen),
            )
        events = [event_of(row) for row in rows[:limit] if row["kind"] is not None]
        if len(rows) > limit:
            return EventRecordPage(events, events[-1].id)
        stopped = bool(rows) and rows[-1]["kind"] is None
        return EventRecordPage(events, rows[-1]["id"] if stopped else None)

    async def acknowledge(
        self, tenant_id: str, ids: Sequence[UUID], by: str | None, note: str | None
    ) -> Sequence[EventRecord]:
        """Notes who has taken note of them, of each once. Returns those that there are."""
        async with self._shown(tenant_id) as connection:
            await connection.execute(query("acknowledge_events"), tenant_id, ids, by, note)
            rows = await connection.fetch(query("get_events"), tenant_id, ids)
        return [event_of(row) for row in rows]

    async def open(self, tenant_id: str) -> int:
        """How many nobody has taken note of, but for good news, up to MOST_OPEN."""
        async with self._shown(tenant_id) as connection:
            row = await connection.fetchrow(query("open_events"), tenant_id, MOST_OPEN, GOOD_NEWS)
        assert row is not None, "a count is always there"
        return int(row["number"])

    def _shown(self, tenant_id: str) -> "AbstractAsyncContextManager[Connection]":
        """A transaction that is shown these events. No tenant's is shown the installation's."""
        if tenant_id == INSTALLATION:
            return self._database.transaction()
        return self._database.scoped(tenant_id)


class PostgresWatch:
    """Judges fires for the watchdog."""

    def __init__(self, database: Database, grace_seconds: float) -> None:
        self._database = database
        self._grace = grace_seconds

    async def judge(self, ids: Sequence[UUID], aside: Sequence[UUID] = ()) -> Judged:
        """Judge fires whose window has closed, earliest first, at most as many as there are `ids`;
        each is judged once. One that did not start in its window gets an event, under the next of
        the `ids`. The first execution counts, and the claim of a run that is still running. Fires
        of the jobs `aside` are left out. The report of service levels counts them."""
        async with self._database.transaction() as connection:
            rows = await connection.fetch(
                query("judge_fires"),
                list(ids),
                _COMMIT_SECONDS,
                self._grace,
                SLA_MISSED,
                list(aside),
            )
            await add_levels(connection, _levels(rows))
        return Judged(len(rows), [_missed(row) for row in rows if row["event_id"] is not None])

    async def next_job(self, aside: Sequence[UUID]) -> TaskKey | None:
        """The job whose fire is judged next."""
        row = await self._database.fetchrow(
            "next_to_judge", _COMMIT_SECONDS, self._grace, list(aside)
        )
        return None if row is None else TaskKey(row["tenant_id"], row["cron_job_id"])


def _severities(chosen: EventFilter) -> tuple[list[str] | None, list[str] | None]:
    """The kinds that are wanted; or, where kinds that are not known are, too, those that are
    not."""
    if chosen.severities is None:
        return None, None
    wanted, unknown = of_severities(chosen.severities)
    if not unknown:
        return wanted, None
    return None, [name for name in KINDS if name not in wanted]


def _missed(row: asyncpg.Record) -> SlaMissed:
    return SlaMissed(**{field: row[field] for field in SlaMissed.__struct_fields__})


def _levels(rows: Sequence[asyncpg.Record]) -> dict[LevelKey, LevelCounts]:
    """What the fires add to the report: each that was missed, also those told together."""
    sums: dict[LevelKey, LevelCounts] = {}
    for row in rows:
        if row["is_miss"] or row["is_kept"]:
            week = week_of(row["sla_at"])
            key = LevelKey(row["tenant_id"], week, row["task_type"] or "", row["cron_job_id"])
            counts = sums.setdefault(key, LevelCounts())
            counts.start_kept += row["is_kept"]
            counts.start_missed += max(1, row["missed"]) if row["is_miss"] else 0
    return sums
