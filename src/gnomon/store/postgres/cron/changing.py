"""One transaction that changes cron jobs: lock the job, withdraw what it planned, plan anew."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from gnomon.clock import new_id
from gnomon.cron.changes import (
    fires_to_backfill,
    next_fire_after_change,
    next_fire_after_pause,
    same_definition,
)
from gnomon.cron.job import (
    CronJob,
    CronRun,
    Definition,
    Overlap,
    RunKind,
    schedule_of,
    schedule_pointer,
)
from gnomon.cron.plan import plan
from gnomon.cron.rhythm import check_interval
from gnomon.cron.runs import (
    PlannedFire,
    backfill_fires,
    manual_fire,
    triggered,
    with_first_reserved,
)
from gnomon.limits.limiter import Limiter
from gnomon.model.errors import QuotaExceeded, StoreUnavailable
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.job_errors import CronJobNotFound, NameTaken, Overlapping
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.roster import AppVersion
from gnomon.store.ports.work.cron import Backfilled, Put
from gnomon.store.postgres.cron import overlap, planning
from gnomon.store.postgres.cron.jobs import id_in, with_histories
from gnomon.store.postgres.cron.rows import job_of, stored_definition
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import stored_tags
from gnomon.store.postgres.tasks.admitting import add_bytes, check_stored
from gnomon.store.postgres.usage import sizes

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

# Fires within this time are planned with the change itself; nodes plan the rest.
AHEAD = timedelta(seconds=10)
_AT_ONCE = 500  # runs made without letting others have their turn
_SCHEDULED = (RunKind.SCHEDULED,)
_ALL_KINDS = tuple(RunKind)


class PostgresCronChange:
    """Changes cron jobs within one transaction of a tenant.

    `ref` is a job's id or its name; an unknown one raises CronJobNotFound. Every change of a
    definition withdraws the runs that were planned ahead, and their entries, and plans anew. `due`
    collects what to hint at once the transaction is committed, and `inserted` the tasks.
    """

    def __init__(
        self,
        connection: "Connection",
        tenant_id: str,
        quotas: Quotas,
        limiters: Sequence[Limiter],
        due: list[Entry],
        inserted: list[Submission],
    ) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._quotas = quotas
        self._limiters = limiters
        self._due = due
        self._inserted = inserted

    async def hold_app(self, app: AppVersion) -> None:
        """Until the transaction ends, no other worker of the app registers anything."""
        await self._connection.execute(query("hold_app"), app.name, app.tenant_id)

    async def create(self, definition: Definition, created_by: str | None = None) -> CronJob:
        """Store a new job. Raises NameTaken."""
        now = await self._now()
        row = await self._insert(definition, now, created_by)
        if row is None:
            raise NameTaken(definition.name)
        return await self._begin(job_of(row), now)

    async def put(
        self, definition: Definition, created_by: str | None = None
    ) -> tuple[CronJob, Put]:
        """Create or replace the job of this name. The same definition again changes nothing."""
        now = await self._now()
        row = await self._insert(definition, now, created_by)
        if row is not None:
            return await self._begin(job_of(row), now), Put.CREATED
        before, _ = await self._lock(definition.name)
        job = await self.patch(definition.name, lambda _: definition)
        return job, Put.UNCHANGED if job.version == before.version else Put.CHANGED

    async def patch(self, ref: str, edit: Callable[[Definition], Definition]) -> CronJob:
        """Change the definition. A new expression, zone or start never fires the past."""
        job, now = await self._lock(ref)
        definition = edit(job.definition)
        if same_definition(job.definition, definition):
            return job
        self._check_interval(definition, str(job.id), now)
        before, new = (sizes.of_job(stored_definition(d)) for d in (job.definition, definition))
        if new > before:  # whoever has no room left may still make it smaller
            await check_stored(self._connection, self._tenant_id, self._quotas, new)
        await add_bytes(self._connection, self._tenant_id, new)
        withdrawn = await self._withdraw(job, now, _SCHEDULED)
        next_fire_at = None
        if job.paused_at is None:
            next_fire_at = next_fire_after_change(job, definition, now, len(withdrawn))
        job = msgspec.structs.replace(job, definition=definition)
        return await self._update(job, next_fire_at, len(withdrawn), now, edited=True)

    async def pause(self, ref: str, reason: str | None, paused_by: str | None = None) -> CronJob:
        """Start nothing more on schedule, nor planned runs that have not started."""
        job, now = await self._lock(ref)
        withdrawn = await self._withdraw(job, None, _SCHEDULED)
        paused_at = job.paused_at or now
        job = msgspec.structs.replace(
            job, paused_at=paused_at, pause_reason=reason, paused_by=paused_by
        )
        return await self._update(job, None, len(withdrawn), now)

    async def resume(self, ref: str) -> CronJob:
        """Continue with the next fire. Fires during the pause were not missed."""
        job, now = await self._lock(ref)
        if job.paused_at is None:
            return job
        next_fire_at = next_fire_after_pause(job, now)
        job = msgspec.structs.replace(job, paused_at=None, pause_reason=None, paused_by=None)
        return await self._update(job, next_fire_at, 0, now)

    async def delete(self, ref: str) -> None:
        """Remove the job and every run that has not started. Running ones go on."""
        job, _ = await self._lock(ref)
        await self._withdraw(job, None, _ALL_KINDS)
        await self._connection.execute(query("delete_job"), self._tenant_id, job.id)

    async def trigger(self, ref: str) -> CronRun:
        """Run it now, whatever its schedule says. Raises Overlapping under `skip` while a run is
        active."""
        job, now = await self._lock(ref)
        await check_stored(self._connection, self._tenant_id, self._quotas, planning.run_bytes(job))
        fires = planning.fires_of(job, [manual_fire(now)], now, self._limiters)
        if job.definition.overlap_policy is not Overlap.ALLOW:
            fires = await self._with_place(job, fires[0])
        await self._enter(job, fires)
        return triggered(fires[0])

    async def backfill(
        self, ref: str, first: datetime, last: datetime, most: int, *, dry_run: bool
    ) -> Backfilled:
        """Run the fires of the past from `first` to `last`, both included, oldest first; those in
        the ledger are left alone. Raises InvalidSchedule when there are more than `most`."""
        job, now = await self._lock(ref)
        fires = fires_to_backfill(job, first, last, most, now)
        rows = await self._connection.fetch(query("entered_fires"), job.id, fires)
        existing = {row["fire_at"] for row in rows}
        planned = [fire for fire in fires if fire not in existing]
        for i in range(0, 0 if dry_run else len(planned), _AT_ONCE):
            part = backfill_fires(planned[i : i + _AT_ONCE])
            more = len(part) * planning.run_bytes(job)
            await check_stored(self._connection, self._tenant_id, self._quotas, more)
            await self._enter(job, planning.fires_of(job, part, now, self._limiters, first=i))
        return Backfilled(planned, sorted(existing))

    async def with_history(self, job: CronJob) -> CronJob:
        """The job with its latest fire, to be shown."""
        return (await with_histories(self._connection, self._tenant_id, [job], 1))[0]

    async def _with_place(self, job: CronJob, fire: PlannedFire) -> list[PlannedFire]:
        """Make the run the active one right away, where no other is."""
        if await overlap.take_place(self._connection, job, fire.run.id):
            return with_first_reserved([fire])
        if job.definition.overlap_policy is Overlap.SKIP:
            raise Overlapping(job.definition.name, job.active_task_id)
        return [fire]

    async def _enter(self, job: CronJob, fires: Sequence[PlannedFire]) -> None:
        """Enter runs that are not of the schedule. The new version makes older plans fail."""
        await self._connection.execute(query("touch_job"), self._tenant_id, job.id)
        with _asked_again():
            self._entered(await planning.enter(self._connection, fires))

    def _entered(self, entered: planning.EnteredRuns) -> None:
        self._inserted += entered.runs
        self._due += entered.entries

    async def _now(self) -> datetime:
        now: datetime = await self._connection.fetchval("SELECT gnomon.now()")
        return now

    async def _lock(self, ref: str) -> tuple[CronJob, datetime]:
        row = await self._connection.fetchrow(query("lock_job"), self._tenant_id, id_in(ref), ref)
        if row is None:
            raise CronJobNotFound(ref)
        return job_of(row), row["now"]

    async def _insert(
        self, definition: Definition, now: datetime, created_by: str | None
    ) -> asyncpg.Record | None:
        job_id = new_id(now)
        return await self._connection.fetchrow(
            query("insert_job"),
            self._tenant_id,
            job_id,
            definition.name,
            definition.source,
            stored_tags(definition.tags),
            stored_definition(definition),
            schedule_of(definition, str(job_id)).next_after(now),
            now,
            created_by,
        )

    async def _begin(self, job: CronJob, now: datetime) -> CronJob:
        """Check the quotas for a new job, and plan its first fires."""
        self._check_interval(job.definition, str(job.id), now)
        quota = self._quotas.cron_jobs
        if quota is not None:
            # Others that create one wait until this transaction has ended.
            await self._connection.execute(query("hold_cron_jobs"), self._tenant_id)
            number = await self._connection.fetchval(query("count_cron_jobs"), self._tenant_id)
            if number > quota:
                raise QuotaExceeded("cron_jobs", quota, number - 1)
        size = sizes.of_job(stored_definition(job.definition))
        await check_stored(self._connection, self._tenant_id, self._quotas, size)
        await add_bytes(self._connection, self._tenant_id, size)
        return await self._plan_ahead(job, now)

    def _check_interval(self, definition: Definition, job_id: str, now: datetime) -> None:
        least = self._quotas.cron_interval_seconds
        check_interval(schedule_of(definition, job_id), now, least, schedule_pointer(definition))

    async def _withdraw(
        self, job: CronJob, after: datetime | None, kinds: Sequence[RunKind]
    ) -> list[datetime]:
        """Withdraw runs that have not started; gives the scheduled fires among them."""
        rows = await self._connection.fetch(
            query("withdraw_runs"), self._tenant_id, job.id, after, list(kinds)
        )
        return [row["fire_at"] for row in rows if row["kind"] == RunKind.SCHEDULED]

    async def _update(
        self,
        job: CronJob,
        next_fire_at: datetime | None,
        withdrawn: int,
        now: datetime,
        *,
        edited: bool = False,
    ) -> CronJob:
        definition = job.definition
        try:
            row = await self._connection.fetchrow(
                query("update_job"),
                self._tenant_id,
                job.id,
                definition.name,
                definition.source,
                stored_tags(definition.tags),
                stored_definition(definition),
                next_fire_at,
                withdrawn,
                job.paused_at,
                job.pause_reason,
                now,
                job.paused_by,
                edited,
            )
        except asyncpg.UniqueViolationError as error:
            raise NameTaken(definition.name) from error
        assert row is not None, "the job is locked"
        updated = msgspec.structs.replace(job_of(row), active_run=job.active_run)
        return await self._plan_ahead(updated, now)

    async def _plan_ahead(self, job: CronJob, now: datetime) -> CronJob:
        """Plan fires that come so soon that a node might be too late for them."""
        if job.next_fire_at is None or job.next_fire_at > now + AHEAD:
            return job
        with _asked_again():
            self._entered(
                await planning.advance(
                    self._connection,
                    [plan(job, now, now + AHEAD)],
                    now,
                    lambda _: self._limiters,
                    lambda _: self._quotas,
                )
            )
        return (await self._lock(str(job.id)))[0]


@contextmanager
def _asked_again() -> Iterator[None]:
    """The ledger has room for every fire, but for a while as partitions of long ago become one. So
    whoever asks for a fire then may ask again."""
    try:
        yield
    except asyncpg.CheckViolationError as error:
        if error.table_name != "occurrence":
            raise
        raise StoreUnavailable(f"the ledger has no room yet: {error}", error.sqlstate) from error
