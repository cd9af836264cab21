"""Builds the runs of a job: the tasks that its fires become. Pure."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gnomon.cron.job import CronJob, CronRun, Overlap, RunKind, payload_of, schedule_of
from gnomon.cron.plan import Occurrence
from gnomon.cron.template import Values
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Submission, template_fields

# The id of a run, by its turn: the ids of one batch are in the order of their turns.
RunIds = Callable[[int], UUID]
_INSTANT = timedelta(microseconds=1)


class PlannedFire(msgspec.Struct, frozen=True):
    """A fire of a job, and the run that it becomes."""

    job: CronJob
    occurrence: Occurrence
    run: Submission

    @property
    def sla_at(self) -> datetime | None:
        """The moment by which the run must have started; None: nobody watches."""
        seconds = self.job.definition.sla_seconds
        return None if seconds is None else self.run.due_at + timedelta(seconds=seconds)


def planned_fires(
    job: CronJob,
    occurrences: Sequence[Occurrence],
    now: datetime,
    ids: RunIds,
    first: int = 0,
) -> list[PlannedFire]:
    """Fires with their runs. What was missed is due at once, in the order of the fires, which is
    that of the ids; `first` is the turn of the first."""
    return [
        PlannedFire(job, occurrence, run_of(job, occurrence, ids(turn), now))
        for turn, occurrence in enumerate(occurrences, first)
    ]


def run_of(job: CronJob, occurrence: Occurrence, run_id: UUID, now: datetime) -> Submission:
    """The task of one fire."""
    definition = job.definition
    schedule = schedule_of(definition, str(job.id))
    template = payload_of(definition)
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


def first_run(fires: Sequence[PlannedFire]) -> UUID | None:
    """The run that may become the active one of its job while it is planned."""
    if not fires or fires[0].job.definition.overlap_policy is Overlap.ALLOW:
        return None
    return fires[0].run.id


def with_first_reserved(fires: Sequence[PlannedFire]) -> list[PlannedFire]:
    """The fires where the first run is the active one: it asks nobody when it starts."""
    run = msgspec.structs.replace(fires[0].run, gated=False)
    return [msgspec.structs.replace(fires[0], run=run), *fires[1:]]


def manual_fire(now: datetime) -> Occurrence:
    """A fire by hand. Schedules fire at whole seconds, so it can be no fire of theirs."""
    fire_at = now if now.microsecond else now + _INSTANT
    return Occurrence(fire_at, fire_at, None, RunKind.MANUAL)


def backfill_fires(fires: Sequence[datetime]) -> list[Occurrence]:
    """Fires of the past that were asked for."""
    return [Occurrence(fire, fire, None, RunKind.BACKFILL) for fire in fires]


def triggered(fire: PlannedFire) -> CronRun:
    """A run as it stands right after it was made by hand."""
    return CronRun(
        cron_job_id=fire.job.id,
        fire_at=fire.occurrence.fire_at,
        kind=fire.occurrence.kind,
        task_id=fire.run.id,
        skipped=None,
        missed=0,
        status=Status.READY,
        started_at=None,
        finished_at=None,
        attempt=0,
        last_error=None,
        sla_missed_at=None,
    )
