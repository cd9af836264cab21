"""Activity on PostgreSQL: adds what processes have counted, and reads sums of it."""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

import asyncpg

from gnomon.model.insight.activity import DELAYS, Counts
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.insight.activity import (
    ActivityPoint,
    ActivityRange,
    ActivityRow,
    TenantActivity,
    TypeActivity,
    UpcomingHour,
)
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

MOST_TYPES = 1_000  # that are looked at
_MOST_FLOWS, _DENSE_FLOWS_EXAMINED = 2_000, 50
_MOST_EXAMINED = 20_000  # in a first look at all flows, and again in a second at the dense ones
_STATEMENT_MILLISECONDS = 2_000


class PostgresActivity:
    """Sums by the minute and by the hour."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, rows: Sequence[ActivityRow]) -> None:
        """Add counts to their minutes and hours, in one statement."""
        sums: dict[_Line, Counts] = {}
        for row in rows:
            for span in (1, 60):
                at = row.minute if span == 1 else row.minute.replace(minute=0)
                line = _Line(row.key.tenant_id, span, row.key.task_type, at, row.key.lane)
                sums.setdefault(line, Counts()).add(row.counts)
        # One order for all, so that two processes that meet cannot wait for each other.
        lines = sorted(sums)
        counts = [sums[line] for line in lines]
        await self._database.execute(
            "add_activity",
            *([line[place] for line in lines] for place in range(len(_Line._fields))),
            [c.submitted for c in counts],
            [c.started for c in counts],
            [c.succeeded for c in counts],
            [c.failed for c in counts],
            [c.dead for c in counts],
            [c.seconds for c in counts],
            list(chain.from_iterable(c.delays for c in counts)),
            DELAYS,
        )

    async def points(
        self, tenant_id: str, within: ActivityRange, task_type: str, lane: Lane | None
    ) -> list[ActivityPoint]:
        """Those points of a tenant at which anything happened, of one type or of all."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(
                query("activity_points"),
                tenant_id,
                within.span,
                task_type,
                within.first,
                within.last,
                within.step,
                lane,
            )
        return [ActivityPoint(row["starts_at"], _counts(row)) for row in rows]

    async def types(
        self, tenant_id: str, within: ActivityRange, lane: Lane | None
    ) -> list[TypeActivity]:
        """The types of a tenant that have counts of their own: the busiest of each hour."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(
                query("activity_types"),
                tenant_id,
                within.span,
                within.first,
                within.last,
                lane,
                MOST_TYPES,
            )
        return [TypeActivity(row["task_type"], _counts(row)) for row in rows]

    async def upcoming(self, tenant_id: str) -> list[UpcomingHour]:
        """The waiting tasks of a tenant that are due from now on, by the hour of 24. Bounded work,
        whatever there is: see upcoming.sql. Raises StoreUnavailable where it takes too long."""
        async with self._database.scoped(tenant_id) as connection:
            await connection.execute(f"SET LOCAL statement_timeout = {_STATEMENT_MILLISECONDS}")
            rows = await connection.fetch(
                query("upcoming"), tenant_id, _MOST_FLOWS, _MOST_EXAMINED, _DENSE_FLOWS_EXAMINED
            )
        return [UpcomingHour(*row) for row in rows]

    async def tenants(
        self, within: ActivityRange, lane: Lane | None, most: int
    ) -> list[TenantActivity]:
        """The points of the tenants that ran for longest, and of all others together."""
        rows = await self._database.fetch(
            "activity_tenants", within.span, within.first, within.last, within.step, lane, most
        )
        return [TenantActivity(row["tenant_id"], row["starts_at"], _counts(row)) for row in rows]


class _Line(NamedTuple):
    """The key of a row."""

    tenant_id: str
    span: int
    task_type: str
    starts_at: datetime
    lane: int


def _counts(row: asyncpg.Record) -> Counts:
    return Counts(
        row["submitted"],
        row["started"],
        row["succeeded"],
        row["failed"],
        row["dead"],
        row["seconds"],
        row["delays"],
    )
