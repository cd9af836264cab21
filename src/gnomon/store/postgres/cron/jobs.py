"""Reads of cron jobs: one, a page, and their runs."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from gnomon.cron.job import CronHistory, CronJob
from gnomon.model.job_errors import CronJobNotFound
from gnomon.store.ports.work.cron import (
    SUCCESS_LOOKED_FOR,
    CronFilter,
    CronPage,
    CronRunFilter,
    CronRunPage,
)
from gnomon.store.postgres.cron.rows import job_of, run_of
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import readable
from gnomon.store.postgres.statuses import status_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from gnomon.store.postgres.database import Connection

LOOKED_AT = 20_000  # jobs of one page at the most, however rare those are that it wants
RUNS_LOOKED_AT = 2_000  # likewise, of runs: each with its task
_AFTER_ALL = UUID(int=(1 << 128) - 1)
_END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)
_UUID_LENGTH = 36


def id_in(ref: str) -> UUID | None:
    """The id that a reference is, or None where it is a name."""
    try:
        return UUID(ref) if len(ref) == _UUID_LENGTH else None
    except ValueError:
        return None


class PostgresCronJobs:
    """Reads cron jobs and their runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: str, ref: str, latest: int = 1) -> CronJob:
        """By id or name, with so many of its latest fires. Raises CronJobNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            job = await _get(connection, tenant_id, ref)
            return (await with_histories(connection, tenant_id, [job], latest))[0]

    async def list(
        self, tenant_id: str, chosen: CronFilter, cursor: UUID | None, limit: int, latest: int = 1
    ) -> CronPage:
        """Jobs older than `cursor`, newest first, each with so many of its latest fires."""
        after = cursor or _AFTER_ALL
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(
                query("list_jobs"),
                tenant_id,
                after,
                limit + 1,
                LOOKED_AT,
                chosen.name,
                chosen.tag,
                chosen.paused,
                chosen.source,
                chosen.next_fire_before,
            )
            jobs = readable(rows[:limit], job_of, "cron job")
            jobs = await with_histories(connection, tenant_id, jobs, latest)
            if len(rows) > limit:
                return CronPage(jobs, rows[limit - 1]["id"])
            last = await connection.fetchval(query("jobs_looked_at"), tenant_id, after, LOOKED_AT)
        return CronPage(jobs, last)

    async def runs(
        self,
        tenant_id: str,
        ref: str,
        chosen: CronRunFilter,
        cursor: datetime | None,
        limit: int,
    ) -> CronRunPage:
        """The entries of the ledger before `cursor`, latest fire first."""
        filters = chosen != CronRunFilter()
        async with self._database.scoped(tenant_id) as connection:
            job = await _get(connection, tenant_id, ref)
            rows = await connection.fetch(
                query("runs"),
                tenant_id,
                job.id,
                cursor or _END_OF_TIME,
                limit + 1,
                RUNS_LOOKED_AT if filters else limit + 1,
                None if chosen.skipped is None else list(chosen.skipped),
                *status_columns(chosen.status),
            )
        return _run_page(rows, limit)


def _run_page(rows: "Sequence[Record]", limit: int) -> CronRunPage:
    """Without the row that only says that there are more: the next run, or where the examining
    stopped."""
    if len(rows) > limit:
        return CronRunPage(readable(rows[:limit], run_of, "run"), rows[limit - 1]["fire_at"])
    if rows and rows[-1]["stopped_at"] is not None:
        return CronRunPage(readable(rows[:-1], run_of, "run"), rows[-1]["stopped_at"])
    return CronRunPage(readable(rows, run_of, "run"), None)


async def with_histories(
    connection: "Connection", tenant_id: str, jobs: "Sequence[CronJob]", latest: int
) -> "list[CronJob]":
    """The jobs, each with so many of its latest fires and its last success: by one statement."""
    if not jobs:
        return []
    ids = [job.id for job in jobs]
    rows = await connection.fetch(
        query("latest_runs"), tenant_id, ids, latest, max(latest, SUCCESS_LOOKED_FOR)
    )
    found: dict[UUID, list[Record]] = {}
    for row in rows:
        found.setdefault(row["cron_job_id"], []).append(row)
    return [
        msgspec.structs.replace(job, history=_history(found[job.id])) if job.id in found else job
        for job in jobs
    ]


def _history(rows: "Sequence[Record]") -> CronHistory:
    return CronHistory(tuple(readable(rows, run_of, "run")), rows[0]["success_at"])


async def _get(connection: "Connection", tenant_id: str, ref: str) -> CronJob:
    row = await connection.fetchrow(query("get_job"), tenant_id, id_in(ref), ref)
    if row is None:
        raise CronJobNotFound(ref)
    return job_of(row)
