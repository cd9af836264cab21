"""The node's side of cron jobs: plan ahead, claim runs, start queued ones."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import structlog

from gnomon.clock import Clock
from gnomon.cron.job import CronJob
from gnomon.cron.plan import Plan
from gnomon.model.fleet.shard import shard_of
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.planning import UNPLANNABLE, OverlapAnswer
from gnomon.store.postgres.cron import overlap, planning
from gnomon.store.postgres.cron.rows import job_of
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.limits.limit_keys import LimitersOf, no_limiters
from gnomon.store.postgres.tasks.admitting import QuotasOf, no_quotas
from gnomon.store.postgres.tasks.task_store import OnInserted, unheard

log = structlog.get_logger("gnomon.store")

_MOST_REASON = 500


class PostgresPlanning:
    """`PlanningStore` on PostgreSQL."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        grace_seconds: float,
        limiters_of: LimitersOf = no_limiters,
        quotas_of: QuotasOf = no_quotas,
        is_full: Callable[[], bool] = lambda: False,
        on_inserted: OnInserted = unheard,
    ) -> None:
        self._database = database
        self._clock = clock
        self._grace = grace_seconds
        self._limiters_of = limiters_of
        self._quotas_of = quotas_of
        self._is_full = is_full
        self._on_inserted = on_inserted

    async def due(
        self, shards: Sequence[int], until: datetime, each: int, aside: Sequence[UUID] = ()
    ) -> list[CronJob]:
        # As many more as may be of those: else they would keep the others of their shard back.
        more = max(Counter(map(shard_of, aside)).values(), default=0)
        rows = await self._database.fetch("due_jobs", list(shards), until, each + more)
        jobs = []
        for row in rows:
            if row["id"] in aside:
                continue
            try:
                jobs.append(job_of(row))
            except ValueError as error:  # plain SQL stores what it likes
                log.warning("a cron job cannot be read, and is paused", job=row["name"])
                key = row["tenant_id"], row["id"], row["version"]
                why = f"{UNPLANNABLE} its row cannot be read: {error}"[:_MOST_REASON]
                await self._database.execute("park_job", *key, why)
        return jobs

    async def advance(self, plans: Sequence[Plan]) -> list[Entry]:
        async with self._database.transaction() as connection:
            now = self._clock.now()
            entered = await planning.advance(
                connection,
                plans,
                now,
                self._limiters_of,
                self._quotas_of,
                full=self._is_full(),
            )
        self._on_inserted(entered.runs)
        return entered.entries

    async def park(self, job: CronJob, reason: str) -> None:
        why = reason[:_MOST_REASON]
        await self._database.execute("park_job", job.tenant_id, job.id, job.version, why)

    async def claim_runs(
        self,
        incarnation: UUID,
        keys: Sequence[TaskKey],
        flows: Sequence[int] = (),
        sessions: Sequence[UUID] = (),
    ) -> OverlapAnswer:
        async with self._database.transaction() as connection:
            return await overlap.claim_runs(
                connection, incarnation, keys, self._grace, flows, sessions
            )

    async def start_queued(self, jobs: Sequence[TaskKey]) -> list[Entry]:
        # Mostly nobody waits, and thousands of runs may have just ended together.
        waiting = await self._database.fetchrow("any_queued")
        if waiting is None or not waiting["found"]:
            return []
        rows = await self._database.fetch(
            "queued_runs", [k.tenant_id for k in jobs], [k.id for k in jobs]
        )
        queued = {TaskKey(row["tenant_id"], row["cron_job_id"]) for row in rows}
        if not queued:
            return []
        async with self._database.transaction() as connection:
            return await overlap.start_queued(connection, queued)

    async def queued(self, shards: Sequence[int], most: int) -> list[TaskKey]:
        rows = await self._database.fetch("queued_jobs", list(shards), most)
        return [TaskKey(row["tenant_id"], row["cron_job_id"]) for row in rows]
