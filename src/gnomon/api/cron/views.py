"""Cron jobs and their runs as the API shows them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from gnomon.api.cron.schemas import (
    BackfillView,
    CronJobView,
    DefinitionView,
    FieldChange,
    FireView,
    JobStatus,
    PreviewedFire,
    PreviewView,
    PutChange,
    PutResult,
    RunKindView,
    RunStatus,
    RunView,
)
from gnomon.api.http.requests.cursors import no_cursor, number_cursor_of, number_cursor_view
from gnomon.api.tasks.views import NULL, raw, template_view
from gnomon.cron.job import CronJob, CronRun, Definition, Skipped, schedule_of
from gnomon.cron.schedule import Schedule
from gnomon.model.meaning import meaning_of
from gnomon.store.ports.work.cron import Backfilled, Put
from gnomon.usecases.cron.cron_jobs import PutJob
from gnomon.usecases.cron.cron_preview import Preview

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def job_view(job: CronJob, now: datetime) -> CronJobView:
    schedule = schedule_of(job.definition, str(job.id))
    next_fire_at = _next_fire(job, schedule, now)
    last = job.history.runs[0] if job.history.runs else None
    return CronJobView(
        **msgspec.structs.asdict(definition_view(job.definition)),
        cron_job_id=job.id,
        status=_status(job, next_fire_at),
        description=schedule.describe(),
        next_fire_at=next_fire_at,
        runs=job.runs,
        active_task_id=job.active_run,
        last_fire_at=None if last is None else last.fire_at,
        last_status=None if last is None else _run_status(last),
        last_success_at=job.history.success_at,
        paused_at=job.paused_at,
        pause_reason=job.pause_reason,
        paused_by=job.paused_by,
        definition_version=job.definition_version,
        created_at=job.created_at,
        updated_at=job.updated_at,
        created_by=job.created_by,
    )


def _next_fire(job: CronJob, schedule: Schedule, now: datetime) -> datetime | None:
    """The next fire after now. The job's own `next_fire_at` may be later: nodes plan ahead."""
    most = job.definition.max_runs
    if job.paused_at is not None or (most is not None and job.runs >= most):
        return None
    return schedule.next_after(now)


def _status(job: CronJob, next_fire_at: datetime | None) -> JobStatus:
    if job.paused_at is not None:
        return JobStatus.PAUSED
    return JobStatus.FINISHED if next_fire_at is None else JobStatus.ACTIVE


def definition_view(definition: Definition) -> DefinitionView:
    seconds, payload = definition.interval_seconds, definition.payload_template
    return DefinitionView(
        name=definition.name,
        cron_expression=definition.cron_expression,
        interval_seconds=None if seconds is None else int(seconds),
        interval_from=definition.interval_from,
        timezone=definition.timezone,
        dst=definition.dst,
        payload_template=NULL if payload is None else payload,
        overlap_policy=definition.overlap_policy,
        missed_run_policy=definition.missed_run_policy,
        missed_after_seconds=definition.missed_after_seconds,
        backfill_limit=definition.backfill_limit,
        backfill_window_seconds=definition.backfill_window_seconds,
        start_date=definition.start_date,
        end_date=definition.end_date,
        max_runs=definition.max_runs,
        jitter_seconds=definition.jitter_seconds,
        source=definition.source,
        **template_view(definition),
    )


def difference(before: Definition, after: Definition) -> dict[str, FieldChange]:
    """The fields in which two definitions differ in meaning."""
    old, new = definition_view(before), definition_view(after)
    found: dict[str, FieldChange] = {}
    for field in old.__struct_fields__:
        texts = [msgspec.json.encode(getattr(view, field)) for view in (old, new)]
        # Masks hide that a secret has changed, so secrets are compared by themselves.
        secret = field == "target" and before.target != after.target
        if secret or meaning_of(texts[0]) != meaning_of(texts[1]):
            found[field] = FieldChange(raw(texts[0]), raw(texts[1]))
    return found


def put_view(found: PutJob, now: datetime) -> PutResult:
    """A job that was put, and the fields that this changed."""
    fields = {}
    if found.before is not None and found.done is Put.CHANGED:
        fields = difference(found.before, found.after)
    return PutResult(PutChange(found.done.value), fields, job_view(found.job, now))


def foreseen_view(before: CronJob | None, after: Definition, now: datetime) -> PutResult:
    """A job that would be put, and the fields that this would change."""
    if before is None:
        return PutResult(PutChange.CREATED, {}, None)
    fields = difference(before.definition, after)
    change = PutChange.CHANGED if fields else PutChange.UNCHANGED
    return PutResult(change, fields, job_view(before, now))


def run_view(run: CronRun) -> RunView:
    return RunView(
        run_id=run.task_id,
        cron_job_id=run.cron_job_id,
        fire_at=run.fire_at,
        kind=RunKindView[run.kind.name],
        status=_run_status(run),
        reason=_reason(run),
        started_at=run.started_at,
        finished_at=run.finished_at,
        attempt=run.attempt,
        last_error=run.last_error,
        sla_missed_at=run.sla_missed_at,
    )


def _run_status(run: CronRun) -> RunStatus | None:
    if run.skipped is None:
        return None if run.status is None else RunStatus(run.status)
    return RunStatus.MISSED if run.skipped is Skipped.MISSED else RunStatus.SKIPPED


def _reason(run: CronRun) -> str | None:
    match run.skipped:
        case Skipped.MISSED if run.missed > 1:
            return f"{run.missed} fires, of which this is the last, could not be started in time"
        case Skipped.MISSED:
            return "it could not be started in time"
        case Skipped.OVERLAP:
            return "the run before had not ended"
        case Skipped.SUPERSEDED:
            return "it waited for the run before to end, and a later one took its place"
        case Skipped.NO_ROOM:
            return (
                f"{run.missed} fires up to this one were skipped: the quota stored_bytes, or the "
                "disk, had no room for their tasks"
            )
    return "its task was removed" if run.status is None else None


def backfill_view(found: Backfilled, zone: ZoneInfo, *, dry_run: bool) -> BackfillView:
    return BackfillView(dry_run, _fires(found.planned, zone), _fires(found.existing, zone))


def _fires(moments: Iterable[datetime], zone: ZoneInfo) -> list[FireView]:
    return [FireView(moment, moment.astimezone(zone)) for moment in moments]


def preview_view(found: Preview) -> PreviewView:
    fires = [PreviewedFire(fire.at, fire.local, fire.note) for fire in found.fires]
    return PreviewView(fires, found.schedule.describe(), found.warnings)


def run_cursor_view(cursor: datetime | None) -> str | None:
    return number_cursor_view(None if cursor is None else (cursor - _EPOCH) // _MICROSECOND)


def run_cursor_of(text: str | None) -> datetime | None:
    """Raises InvalidTask, with the place."""
    micros = number_cursor_of(text)
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        raise no_cursor() from error
