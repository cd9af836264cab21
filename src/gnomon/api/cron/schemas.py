"""The bodies of requests and answers about cron jobs, as types."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.api.tasks.schemas import (
    DEFAULT_LIMIT,
    LONGEST_DELAY,
    Json,
    Moment,
    Strict,
    Tag,
    TaskType,
    TemplateBody,
    TemplatePatch,
    TemplateView,
)
from gnomon.cron.job import DEFAULT_MISSED_AFTER, Missed, Overlap
from gnomon.cron.schedule import Dst
from gnomon.model.task import DeliveryMode

MOST_NAME_CHARACTERS = 200
ONE_DAY = 24 * 3600.0
MOST_BACKFILLED = 10_000  # in one request, and by policy
DEFAULT_BACKFILL = 1000
MOST_PREVIEWED = 1000
DEFAULT_PREVIEW = 10
_LEAST = 0.001  # seconds that are worth telling from none

JobName = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARACTERS)]
Source = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Reason = Annotated[str, msgspec.Meta(max_length=1000)]
Expression = Annotated[
    str,
    msgspec.Meta(
        max_length=1000, description="Five fields, or six with the second first: 0 9 * * MON-FRI"
    ),
]
Interval = Annotated[float, msgspec.Meta(ge=1, description="Whole seconds, up to ten years")]
Phase = Annotated[
    str,
    msgspec.Meta(
        max_length=100,
        description="A local time of day, 09:07, or a moment, 2026-01-01T09:07:00Z",
    ),
]
Zone = Annotated[str, msgspec.Meta(max_length=100, description="An IANA name: Europe/Berlin")]
Template = Annotated[
    msgspec.Raw, msgspec.Meta(description='Any JSON; strings may hold "{{ fire_time }}" and more')
]
MissedAfter = Annotated[float, msgspec.Meta(ge=1, le=ONE_DAY)]
BackfillLimit = Annotated[int, msgspec.Meta(ge=1, le=MOST_BACKFILLED)]
Window = Annotated[float, msgspec.Meta(ge=_LEAST, le=LONGEST_DELAY)]
MaxRuns = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Jitter = Annotated[float, msgspec.Meta(ge=0, le=ONE_DAY)]
Sla = Annotated[float, msgspec.Meta(ge=_LEAST, le=LONGEST_DELAY)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_PREVIEWED)]


class PutCronJob(TemplateBody, kw_only=True):
    """A job as it is to be. Its name is in the path; here it may be repeated."""

    name: JobName | None = None
    cron_expression: Expression | None = None
    interval_seconds: Interval | None = None
    interval_from: Phase | None = None
    timezone: Zone = "UTC"
    dst: Dst = Dst()
    payload_template: Template | msgspec.UnsetType = msgspec.UNSET
    overlap_policy: Overlap = Overlap.SKIP
    missed_run_policy: Missed = Missed.FIRE_ONCE
    missed_after_seconds: MissedAfter = DEFAULT_MISSED_AFTER
    backfill_limit: BackfillLimit | None = None
    backfill_window_seconds: Window | None = None
    start_date: Moment | None = None
    end_date: Moment | None = None
    max_runs: MaxRuns | None = None
    jitter_seconds: Jitter = 0.0
    sla_seconds: Sla | None = None
    source: Source | None = None


class CreateCronJob(PutCronJob, kw_only=True):
    """A job that recurs: by a cron expression, or by an interval."""

    name: JobName


class PatchCronJob(TemplatePatch):
    """What to change in a job. A field that is left out stays as it is; giving one of
    cron_expression and interval_seconds takes off the other."""

    name: JobName | msgspec.UnsetType = msgspec.UNSET
    task_type: TaskType | msgspec.UnsetType = msgspec.UNSET
    cron_expression: Expression | msgspec.UnsetType | None = msgspec.UNSET
    interval_seconds: Interval | msgspec.UnsetType | None = msgspec.UNSET
    interval_from: Phase | msgspec.UnsetType | None = msgspec.UNSET
    timezone: Zone | msgspec.UnsetType = msgspec.UNSET
    dst: Dst | msgspec.UnsetType = msgspec.UNSET
    payload_template: Template | msgspec.UnsetType = msgspec.UNSET
    overlap_policy: Overlap | msgspec.UnsetType = msgspec.UNSET
    missed_run_policy: Missed | msgspec.UnsetType = msgspec.UNSET
    missed_after_seconds: MissedAfter | msgspec.UnsetType = msgspec.UNSET
    backfill_limit: BackfillLimit | msgspec.UnsetType | None = msgspec.UNSET
    backfill_window_seconds: Window | msgspec.UnsetType | None = msgspec.UNSET
    start_date: Moment | msgspec.UnsetType | None = msgspec.UNSET
    end_date: Moment | msgspec.UnsetType | None = msgspec.UNSET
    max_runs: MaxRuns | msgspec.UnsetType | None = msgspec.UNSET
    jitter_seconds: Jitter | msgspec.UnsetType = msgspec.UNSET
    sla_seconds: Sla | msgspec.UnsetType | None = msgspec.UNSET
    delivery: DeliveryMode | msgspec.UnsetType = msgspec.UNSET
    source: Source | msgspec.UnsetType | None = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    pause_reason: Reason | msgspec.UnsetType | None = msgspec.UNSET


class PauseCronJob(Strict):
    """Why, for whoever looks at the job later."""

    reason: Reason | None = None


class BackfillCronJob(Strict):
    """Which fires of the past to run: from the first moment to the last, both included."""

    first: Moment = msgspec.field(name="from")
    last: Moment = msgspec.field(name="to")
    dry_run: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_BACKFILLED)] = DEFAULT_BACKFILL


class PreviewSchedule(Strict):
    """A schedule to look at. `H` in it is drawn from cron_job_id."""

    cron_expression: Expression | None = None
    interval_seconds: Interval | None = None
    interval_from: Phase | None = None
    timezone: Zone = "UTC"
    dst: Dst = Dst()
    start_date: Moment | None = None
    end_date: Moment | None = None
    after: Moment | None = None
    count: Count = DEFAULT_PREVIEW
    cron_job_id: UUID | None = None


class CronJobQuery(Strict):
    """The parameters of a list of cron jobs."""

    name: Annotated[str, msgspec.Meta(description="A part of the name, in any case")] | None = None
    tag: Tag | None = None
    paused: bool | None = None
    source: Source | None = None
    next_fire_before: Moment | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class RunQuery(Strict):
    """The parameters of a list of runs."""

    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class PutQuery(Strict):
    """With dry_run nothing is changed, and the answer says what would be."""

    dry_run: bool = False


class JobStatus(StrEnum):
    """Whether a job fires."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"


class DefinitionView(TemplateView):
    """What a job was declared to be, with every default written out."""

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
    start_date: datetime | None
    end_date: datetime | None
    max_runs: int | None
    jitter_seconds: float
    sla_seconds: float | None
    source: str | None


class CronJobView(DefinitionView, kw_only=True):
    """A cron job as it stands."""

    cron_job_id: UUID
    status: JobStatus
    description: str
    next_fire_at: datetime | None
    runs: int
    active_task_id: UUID | None
    paused_at: datetime | None
    pause_reason: str | None
    created_at: datetime
    updated_at: datetime
    created_by: str | None


class CronJobPage(msgspec.Struct):
    """Newest first."""

    cron_jobs: list[CronJobView]
    next_cursor: str | None


class PutChange(StrEnum):
    """What became of the job."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class FieldChange(msgspec.Struct):
    """A field that was changed, or would be."""

    before: Json = msgspec.field(name="from")
    after: Json = msgspec.field(name="to")


class CronJobReceipt(msgspec.Struct):
    """What whoever may not read is told of a cron job."""

    cron_job_id: UUID
    name: str
    status: JobStatus


class PutReceipt(msgspec.Struct):
    """Likewise, of what became of it."""

    change: PutChange
    cron_job: CronJobReceipt | None


class PutResult(msgspec.Struct):
    """What was changed, or would be; without a job where one would be created."""

    change: PutChange
    fields: dict[str, FieldChange]
    cron_job: CronJobView | None


class RunKindView(StrEnum):
    """Why a run came to be."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    BACKFILL = "backfill"


class RunStatus(StrEnum):
    """The status of the run's task; or why it has none."""

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


class RunView(msgspec.Struct, kw_only=True):
    """One occurrence of a cron job; run_id is the id of its task."""

    run_id: UUID | None
    cron_job_id: UUID
    fire_at: datetime
    kind: RunKindView
    status: RunStatus | None
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int | None
    last_error: str | None
    sla_missed_at: datetime | None


class RunPage(msgspec.Struct):
    """Latest fire first."""

    runs: list[RunView]
    next_cursor: str | None


class FireView(msgspec.Struct):
    """A fire: in UTC, and as clocks in the job's zone show it."""

    fire_at: datetime
    local: datetime


class BackfillView(msgspec.Struct):
    """The fires that get a run now, or would, and those that have one already."""

    dry_run: bool
    planned: list[FireView]
    existing: list[FireView]


class PreviewedFire(FireView):
    """A fire, and what a clock change did to it."""

    note: str | None


class PreviewView(msgspec.Struct):
    """The next fires, and the schedule in words."""

    fires: list[PreviewedFire]
    description: str
