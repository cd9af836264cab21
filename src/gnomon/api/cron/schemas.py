"""Queries and answers about cron jobs, as types that check and describe them."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.api.tasks.schemas import TemplateView
from gnomon.cron.job import Missed, Overlap, Skipped
from gnomon.cron.schedule import Dst
from gnomon.model.tasks.lifecycle import Status
from gnomon.store.ports.work.cron import CronFilter, CronRunFilter
from gnomon.usecases.checks.request_fields import (
    DEFAULT_LIMIT,
    Json,
    Limit,
    Moment,
    Reason,
    Source,
    Strict,
    Tag,
)
from gnomon.usecases.checks.request_moments import utc


class PauseCronJob(Strict):
    """The reason of a pause, shown with the job."""

    reason: Reason | None = None


class CronJobQuery(Strict):
    """The parameters of a list of cron jobs."""

    name: Annotated[str, msgspec.Meta(description="A part of the name, in any case")] | None = None
    tag: Tag | None = None
    paused: bool | None = None
    source: Source | None = None
    next_fire_before: Moment | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None

    def chosen(self) -> CronFilter:
        """The filter for the store. Raises InvalidTask, with the place."""
        return CronFilter(
            name=self.name,
            tag=self.tag,
            paused=self.paused,
            source=self.source,
            next_fire_before=utc(self.next_fire_before, "/next_fire_before"),
        )


class PutQuery(Strict):
    """Options of a PUT. With dry_run nothing is changed, and the answer says what would be."""

    dry_run: bool = False


class JobStatus(StrEnum):
    """Whether a job fires."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"


class RunStatus(StrEnum):
    """The status of the run's task, or the reason why it has none."""

    SCHEDULED = "SCHEDULED"
    READY = "READY"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    DEAD_LETTERED = "DEAD_LETTERED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    PAUSED = "PAUSED"
    BLOCKED = "BLOCKED"
    SKIPPED = "SKIPPED"
    MISSED = "MISSED"


class DefinitionView(TemplateView):
    """The definition of a cron job, with every default written out."""

    name: str
    cron_expression: str | None
    interval_seconds: int | None
    interval_from: str | None
    timezone: str
    dst: Dst
    payload_template: Json
    overlap_policy: Overlap
    missed_run_policy: Missed
    missed_after_seconds: float
    backfill_limit: int | None
    backfill_window_seconds: float | None
    start_date: Moment | None
    end_date: Moment | None
    max_runs: int | None
    jitter_seconds: float
    source: str | None


class CronJobView(DefinitionView, kw_only=True):
    """A cron job in its present state."""

    cron_job_id: UUID
    status: JobStatus
    description: str
    next_fire_at: Moment | None
    runs: int
    active_task_id: UUID | None
    last_fire_at: Moment | None
    last_status: RunStatus | None
    last_success_at: Moment | None
    paused_at: Moment | None
    pause_reason: str | None
    paused_by: str | None
    definition_version: int
    created_at: Moment
    updated_at: Moment
    created_by: str | None


class CronJobPage(msgspec.Struct):
    """A page of cron jobs, newest first."""

    cron_jobs: list[CronJobView]
    next_cursor: str | None


class PutChange(StrEnum):
    """The effect of a PUT."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class FieldChange(msgspec.Struct):
    """A field that was changed, or would be."""

    before: Json = msgspec.field(name="from")
    after: Json = msgspec.field(name="to")


class CronJobReceipt(msgspec.Struct):
    """The id, name and status of a cron job, for callers who may not read."""

    cron_job_id: UUID
    name: str
    status: JobStatus


class PutReceipt(msgspec.Struct):
    """The effect of a PUT, for callers who may not read."""

    change: PutChange
    cron_job: CronJobReceipt | None


class PutResult(msgspec.Struct):
    """The effect of a PUT, or of one that was a dry run; without a job where it would be new."""

    change: PutChange
    fields: dict[str, FieldChange]
    cron_job: CronJobView | None


class RunKindView(StrEnum):
    """The cause of a run."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    BACKFILL = "backfill"


class RunQuery(Strict):
    """The parameters of a list of runs."""

    status: RunStatus | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None

    def chosen(self) -> CronRunFilter:
        """The filter for the store."""
        match self.status:
            case None:
                return CronRunFilter()
            case RunStatus.MISSED:
                return CronRunFilter(skipped=(Skipped.MISSED,))
            case RunStatus.SKIPPED:
                others = tuple(reason for reason in Skipped if reason is not Skipped.MISSED)
                return CronRunFilter(skipped=others)
        return CronRunFilter(status=Status(self.status))


class RunView(msgspec.Struct, kw_only=True):
    """A run of a cron job; run_id is the id of its task."""

    run_id: UUID | None
    cron_job_id: UUID
    fire_at: Moment
    kind: RunKindView
    status: RunStatus | None
    reason: str | None
    started_at: Moment | None
    finished_at: Moment | None
    attempt: int | None
    last_error: str | None
    sla_missed_at: Moment | None


class RunPage(msgspec.Struct):
    """A page of runs, latest fire first."""

    runs: list[RunView]
    next_cursor: str | None


class FireView(msgspec.Struct):
    """A fire: in UTC, and as clocks in the job's zone show it."""

    fire_at: Moment
    local: Moment


class BackfillView(msgspec.Struct):
    """The fires that get a run now, or would, and those that have one already."""

    dry_run: bool
    planned: list[FireView]
    existing: list[FireView]


class PreviewedFire(FireView):
    """A fire, and how a clock change moved it."""

    note: str | None


class PreviewView(msgspec.Struct):
    """The next fires, the schedule in words, and what may surprise in it."""

    fires: list[PreviewedFire]
    description: str
    warnings: list[str]
