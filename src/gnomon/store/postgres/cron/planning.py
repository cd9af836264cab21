"""Fires into the ledger and into tasks, in the transaction that moves their job on."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
import structlog

from gnomon.clock import new_id_in
from gnomon.cron.job import CronJob, Overlap, payload_of, schedule_of
from gnomon.cron.plan import Occurrence, Plan, withheld
from gnomon.cron.template import Values
from gnomon.limits.limiter import Limiter
from gnomon.model.shard import shard_of
from gnomon.model.task import Submission, template_fields
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


class PlannedFire(msgspec.Struct, frozen=True):
    """A run about to be entered, with the job that it is of."""

    job: CronJob
    occurrence: Occurrence
    run: Submission


async def advance(
    connection: "Connection",
    plans: Sequence[Plan],
    now: datetime,
    limiters_of: LimitersOf = no_limiters,
    quotas_of: QuotasOf = no_quotas,
    *,
    full: bool = False,
) -> list[Entry]:
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
        [_first_run(p.job, fires[p.job.id]) for p in plans],
    )
    reserved: dict[UUID, bool] = {row["id"]: row["reserved"] for row in rows}
    entering = [f for job_id, has in reserved.items() for f in _ungated(fires[job_id], has)]
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
    """About what a run of it takes."""
    return sizes.TASK_BYTES + sizes.FIRE_BYTES + len(stored_definition(job.definition))


async def enter(
    connection: "Connection", fires: Sequence[PlannedFire], missed: Sequence[Plan] = ()
) -> list[Entry]:
    """Write the ledger and insert the tasks of what was not in it."""
    if not fires and not missed:
        return []
    rows = await connection.fetch(
        query("insert_occurrences"),
        [f.job.id for f in fires] + [p.job.id for p in missed],
        [f.occurrence.fire_at for f in fires] + [p.last_missed for p in missed],
        [f.job.tenant_id for f in fires] + [p.job.tenant_id for p in missed],
        [f.occurrence.kind for f in fires] + [0] * len(missed),
        [f.run.id for f in fires] + [None] * len(missed),
        [None] * len(fires) + [p.why for p in missed],
        [0] * len(fires) + [p.missed for p in missed],
        [_sla_at(f) for f in fires] + [p.last_missed if _watched(p.job) else None for p in missed],
    )
    entered = {(row["cron_job_id"], row["fire_at"]) for row in rows}
    return await insert(
        connection, [f.run for f in fires if (f.job.id, f.occurrence.fire_at) in entered]
    )


def fires_of(
    job: CronJob,
    occurrences: Sequence[Occurrence],
    now: datetime,
    limiters: Sequence[Limiter] = (),
    first: int = 0,
) -> list[PlannedFire]:
    """Fires with their runs. What was missed is due at once, in the order of the fires, which is
    that of the ids; `first` is the turn of the first."""
    return [
        PlannedFire(job, o, with_keys(_run(job, o, now, turn), limiters))
        for turn, o in enumerate(occurrences, first)
    ]


def _run(job: CronJob, occurrence: Occurrence, now: datetime, turn: int) -> Submission:
    """The task of one fire. It lies in its job's shard, so one node plans and runs it."""
    definition = job.definition
    schedule = schedule_of(definition, str(job.id))
    template = payload_of(definition)
    run_id = new_id_in(shard_of(job.id), now, turn)
    previous = None if template.is_constant else schedule.previous_before(occurrence.fire_at)
    values = Values(
        fire_time=occurrence.fire_at,
        scheduled_for=occurrence.execute_at,
        previous_fire_time=previous,
        run_id=str(run_id),
        job_name=definition.name,
    )
    return Submission(
        **template_fields(definition),
        tenant_id=job.tenant_id,
        id=run_id,
        execute_at=occurrence.execute_at,
        due_at=max(occurrence.execute_at, now),
        payload=None if definition.payload_template is None else template.render(values),
        name=definition.name,
        expires_at=occurrence.expires_at,
        created_by=job.created_by,
        cron_job_id=job.id,
        fire_at=occurrence.fire_at,
        gated=definition.overlap_policy is not Overlap.ALLOW,
    )


def _first_run(job: CronJob, fires: Sequence[PlannedFire]) -> UUID | None:
    """The run that may become the active one while it is planned."""
    if not fires or job.definition.overlap_policy is Overlap.ALLOW:
        return None
    return fires[0].run.id


def _ungated(fires: Sequence[PlannedFire], reserved: bool) -> list[PlannedFire]:
    if not reserved:
        return list(fires)
    first = msgspec.structs.replace(fires[0].run, gated=False)
    return [msgspec.structs.replace(fires[0], run=first), *fires[1:]]


def _watched(job: CronJob) -> bool:
    return job.definition.sla_seconds is not None


def _sla_at(fire: PlannedFire) -> datetime | None:
    seconds = fire.job.definition.sla_seconds
    return None if seconds is None else fire.run.due_at + timedelta(seconds=seconds)
