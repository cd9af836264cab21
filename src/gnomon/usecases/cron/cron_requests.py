"""Requests that declare, change and preview cron jobs."""

from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.cron.job import DEFAULT_MISSED_AFTER, Missed, Overlap
from gnomon.cron.schedule import Dst
from gnomon.model.tasks.task import DeliveryMode
from gnomon.usecases.checks.request_fields import (
    MOST_BACKFILLED,
    BackfillLimit,
    Count,
    DefinitionVersion,
    Expression,
    Interval,
    Jitter,
    JobName,
    MaxRuns,
    MissedAfter,
    Moment,
    Phase,
    Reason,
    Source,
    Strict,
    TaskType,
    Template,
    Window,
    Zone,
)
from gnomon.usecases.tasks.task_requests import TemplateBody, TemplatePatch

DEFAULT_BACKFILL = 1000
DEFAULT_PREVIEW = 10


class PutCronJob(TemplateBody, kw_only=True):
    """The definition of a job. Its name is in the path, and may be repeated here."""

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
    jitter_seconds: Jitter | msgspec.UnsetType = msgspec.UNSET
    source: Source | None = None


class CreateCronJob(PutCronJob, kw_only=True):
    """A recurring job: by a cron expression, or by an interval."""

    name: JobName


class PatchCronJob(TemplatePatch):
    """Changes of a job. A field that is left out stays as it is; giving one of cron_expression and
    interval_seconds removes the other."""

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
    delivery: DeliveryMode | msgspec.UnsetType = msgspec.UNSET
    source: Source | msgspec.UnsetType | None = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    pause_reason: Reason | msgspec.UnsetType | None = msgspec.UNSET
    definition_version: DefinitionVersion | msgspec.UnsetType = msgspec.UNSET


class BackfillCronJob(Strict):
    """A range of the past whose fires are to run, both ends included."""

    first: Moment = msgspec.field(name="from")
    last: Moment = msgspec.field(name="to")
    dry_run: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_BACKFILLED)] = DEFAULT_BACKFILL


class PreviewSchedule(Strict):
    """A schedule to preview. `H` in it is derived from cron_job_id."""

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
