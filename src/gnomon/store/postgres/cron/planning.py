"""Writes fires into the ledger and inserts their tasks, in the transaction that moves their job."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import msgspec
import structlog

from gnomon.clock import new_id_in
from gnomon.cron.job import CronJob
from gnomon.cron.plan import Occurrence, Plan, withheld
from gnomon.cron.runs import PlannedFire, first_run, planned_fires, with_first_reserved
from gnomon.limits.limiter import Limiter
from gnomon.model.fleet.shard import shard_of
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.cron.rows import stored_definition
from gnomon.store.postgres.limits.limit_keys import LimitersOf, no_limiters, with_keys
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks.admitting import QuotasOf, no_quotas
from gnomon.store.postgres.tasks.inserting import insert
from gnomon.store.postgres.usage import sizes

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


log = structlog.get_logger("gnomon.store")


class EnteredRuns(NamedTuple):
    """Runs that were inserted, and the hints to be sent once that is committed."""

    runs: list[Submission]
    entries: list[Entry]


async def advance(
    connection: "Connection",
    plans: Sequence[Plan],
    now: datetime,
    limiters_of: LimitersOf = no_limiters,
    quotas_of: QuotasOf = no_quotas,
    *,
    full: bool = False,
) -> EnteredRuns:
    """Carry out plans within a transaction. Those that are out of date change nothing. Where a
    tenant has no room for its runs, or nobody has (`full`), they are skipped."""
    over = {p.job.tenant_id for p in plans} if full else await _over(connection, plans, quotas_of)
    if over:
        plans = [withheld(p, now) if p.job.tenant_id in over else p for p in plans]
        log.warning("fires of cron jobs are skipped: no room for their tasks", tenants=sorted(over))
    fires = {
        p.job.id: fires_of(p.job, p.occurrences, now, limiters_of(p.job.tenant_id)) for p in plans
    }
    rows = await connection.fetch(
        query("advance_jobs"),
        [p.job.tenant_id for p in plans],
        [p.job.id for p in plans],
        [p.job.version for p in plans],
        [p.job.next_fire_at for p in plans],
        [p.next_fire_at for p in plans],
        [len(p.occurrences) for p in plans],
        [first_run(fires[p.job.id]) for p in plans],
    )
    reserved: dict[UUID, bool] = {row["id"]: row["reserved"] for row in rows}
    entering: list[PlannedFire] = []
    for job_id, has_place in reserved.items():
        entering += with_first_reserved(fires[job_id]) if has_place else fires[job_id]
    missed = [p for p in plans if p.missed and p.job.id in reserved]
    return await enter(connection, entering, missed)


async def _over(connection: "Connection", plans: Sequence[Plan], quotas_of: QuotasOf) -> set[str]:
    """The tenants whose bytes, with those of their runs, would be more than their quota."""
    most: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for each in plans:
        tenant, quota = each.job.tenant_id, quotas_of(each.job.tenant_id).stored_bytes
        if quota is not None and each.occurrences:
            size = len(each.occurrences) * run_bytes(each.job)
            most[tenant], wanted[tenant] = quota, wanted.get(tenant, 0) + size
    if not most:
        return set()
    rows = await connection.fetch(
        "SELECT tenant, gnomon.stored_bytes(tenant) FROM unnest($1::text[]) AS tenant", [*most]
    )
    return {tenant for tenant, stored in rows if stored + wanted[tenant] > most[tenant]}


def run_bytes(job: CronJob) -> int:
    """About how many bytes a run of the job takes."""
    return sizes.TASK_BYTES + sizes.FIRE_BYTES + len(stored_definition(job.definition))


async def enter(
    connection: "Connection", fires: Sequence[PlannedFire], missed: Sequence[Plan] = ()
) -> EnteredRuns:
    """Write the ledger and insert the tasks of fires that were not in it."""
    if not fires and not missed:
        return EnteredRuns([], [])
    rows = await connection.fetch(
        query("insert_occurrences"),
        [f.job.id for f in fires] + [p.job.id for p in missed],
        [f.occurrence.fire_at for f in fires] + [p.last_missed for p in missed],
        [f.job.tenant_id for f in fires] + [p.job.tenant_id for p in missed],
        [f.occurrence.kind for f in fires] + [0] * len(missed),
        [f.run.id for f in fires] + [None] * len(missed),
        [None] * len(fires) + [p.why for p in missed],
        [0] * len(fires) + [p.missed for p in missed],
        [f.sla_at for f in fires] + [_missed_sla(p) for p in missed],
    )
    entered = {(row["cron_job_id"], row["fire_at"]) for row in rows}
    runs = [f.run for f in fires if (f.job.id, f.occurrence.fire_at) in entered]
    return EnteredRuns(runs, await insert(connection, runs))


def fires_of(
    job: CronJob,
    occurrences: Sequence[Occurrence],
    now: datetime,
    limiters: Sequence[Limiter] = (),
    first: int = 0,
) -> list[PlannedFire]:
    """Fires with their runs, which lie in their job's shard, so that one node plans and runs them;
    and with what limiters find in their payloads."""
    shard = shard_of(job.id)
    fires = planned_fires(job, occurrences, now, lambda turn: new_id_in(shard, now, turn), first)
    if not limiters:
        return fires
    return [msgspec.structs.replace(f, run=with_keys(f.run, limiters)) for f in fires]


def _missed_sla(plan: Plan) -> datetime | None:
    return None if plan.job.definition.sla_seconds is None else plan.last_missed
