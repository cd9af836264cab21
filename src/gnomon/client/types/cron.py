"""Cron jobs and their runs."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gnomon.client.types import Spec
from gnomon.client.types.tasks import TemplateEdit, TemplateInfo, TemplateSpec
from gnomon.cron.dst import Dst
from gnomon.cron.job import Missed, Overlap
from gnomon.model.tasks.task import DeliveryMode


class CronJobSpec(TemplateSpec, kw_only=True):
    """A recurring job: by a cron expression, or by an interval."""

    name: str
    cron_expression: str | None = None
    interval_seconds: float | None = None
    interval_from: str | None = None
    timezone: str | None = None
    dst: Dst | None = None
    payload_template: Any = None
    overlap_policy: Overlap | None = None
    missed_run_policy: Missed | None = None
    missed_after_seconds: float | None = None
    backfill_limit: int | None = None
    backfill_window_seconds: float | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    max_runs: int | None = None
    jitter_seconds: float | None = None
    source: str | None = None


class CronJobEdit(TemplateEdit, kw_only=True):
    """Changes of a job. A field that is not given stays as it is; one of cron_expression and
    interval_seconds removes the other."""

    name: str | UnsetType = UNSET
    task_type: str | UnsetType = UNSET
    cron_expression: str | UnsetType | None = UNSET
    interval_seconds: float | UnsetType | None = UNSET
    interval_from: str | UnsetType | None = UNSET
    timezone: str | UnsetType = UNSET
    dst: Dst | UnsetType = UNSET
    payload_template: Any = UNSET
    overlap_policy: Overlap | UnsetType = UNSET
    missed_run_policy: Missed | UnsetType = UNSET
    missed_after_seconds: float | UnsetType = UNSET
    backfill_limit: int | UnsetType | None = UNSET
    backfill_window_seconds: float | UnsetType | None = UNSET
    start_date: datetime | UnsetType | None = UNSET
    end_date: datetime | UnsetType | None = UNSET
    max_runs: int | UnsetType | None = UNSET
    jitter_seconds: float | UnsetType = UNSET
    delivery: DeliveryMode | UnsetType = UNSET
    source: str | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    pause_reason: str | UnsetType | None = UNSET
    definition_version: int | UnsetType = UNSET


class ScheduleSpec(Spec, kw_only=True):
    """A schedule to preview. `H` in it is derived from cron_job_id."""

    cron_expression: str | None = None
    interval_seconds: float | None = None
    interval_from: str | None = None
    timezone: str | None = None
    dst: Dst | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    after: datetime | None = None
    count: int | None = None
    cron_job_id: UUID | None = None


class BackfillSpec(Spec, kw_only=True):
    """A range of the past whose fires are to run, both ends included."""

    first: datetime = msgspec.field(name="from")
    last: datetime = msgspec.field(name="to")
    dry_run: bool = False
    limit: int | None = None


class DeclaredJob(msgspec.Struct, kw_only=True):
    """The id, name and status of a job: all that is told of a change to a key without the role
    `read`, which gets this in place of a CronJobInfo."""

    cron_job_id: UUID
    name: str
    status: str  # active, paused or finished


class CronJobInfo(TemplateInfo, kw_only=True):
    """A cron job in its present state."""

    cron_job_id: UUID
    name: str
    status: str  # active, paused or finished
    description: str
    cron_expression: str | None
    interval_seconds: int | None
    interval_from: str | None
    timezone: str
    dst: Dst
    payload_template: Any
    overlap_policy: Overlap
    missed_run_policy: Missed
    missed_after_seconds: float
    backfill_limit: int | None
    backfill_window_seconds: float | None
    start_date: datetime | None
    end_date: datetime | None
    max_runs: int | None
    jitter_seconds: float
    source: str | None
    next_fire_at: datetime | None
    runs: int
    active_task_id: UUID | None
    last_fire_at: datetime | None
    last_status: str | None  # of the last fire: as in a RunInfo
    last_success_at: datetime | None  # among the latest 100 fires
    paused_at: datetime | None
    pause_reason: str | None
    paused_by: str | None
    definition_version: int
    created_at: datetime
    updated_at: datetime
    created_by: str | None


class ChangedField(msgspec.Struct, kw_only=True):
    """The value of a field before and after a change."""

    before: Any = msgspec.field(name="from")
    after: Any = msgspec.field(name="to")


class PutInfo(msgspec.Struct, kw_only=True):
    """The effect of a PUT, or of one that was a dry run; without a job where it would be new."""

    change: str  # created, changed or unchanged
    fields: dict[str, ChangedField]
    cron_job: CronJobInfo | None


class DeclaredPut(msgspec.Struct, kw_only=True):
    """The effect of a PUT, for a key without the role `read`."""

    change: str
    cron_job: DeclaredJob | None


class RunInfo(msgspec.Struct, kw_only=True):
    """A run of a cron job; run_id is the id of its task."""

    run_id: UUID | None
    cron_job_id: UUID
    fire_at: datetime
    kind: str  # scheduled, manual or backfill
    status: str | None  # of its task, or SKIPPED, or MISSED
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int | None
    last_error: str | None
    sla_missed_at: datetime | None


class FireInfo(msgspec.Struct, kw_only=True):
    """A fire: in UTC, and as clocks in the job's zone show it."""

    fire_at: datetime
    local: datetime
    note: str | None = None  # of a preview: how a clock change moved it


class BackfillInfo(msgspec.Struct, kw_only=True):
    """The fires that get a run now, or would, and those that have one already."""

    dry_run: bool
    planned: list[FireInfo]
    existing: list[FireInfo]


class PreviewInfo(msgspec.Struct, kw_only=True):
    """The next fires of a schedule, the schedule in words, and what may surprise in it."""

    fires: list[FireInfo]
    description: str
    warnings: list[str]
