"""Activity over time, what is scheduled, and service levels."""

from datetime import date, datetime
from uuid import UUID

import msgspec


class StartDelayInfo(msgspec.Struct, kw_only=True):
    """How late starts were, in seconds: half of them, 95 and 99 in a hundred at the most."""

    p50: float | None
    p95: float | None
    p99: float | None


class ActivitySumsInfo(msgspec.Struct, kw_only=True):
    """`started`, `succeeded` and `failed` are executions, `dead` is tasks, and `run_seconds` is
    what executions took that have ended."""

    submitted: int
    started: int
    succeeded: int
    failed: int
    dead: int
    run_seconds: float
    start_delay: StartDelayInfo


class ActivityStepInfo(ActivitySumsInfo, kw_only=True):
    """One step."""

    at: datetime


class TypeActivityInfo(ActivitySumsInfo, kw_only=True):
    """One task type; None: all that are not named."""

    task_type: str | None


class TenantStepsInfo(ActivitySumsInfo, kw_only=True):
    """One tenant; None: all that are not named."""

    tenant_id: str | None
    weight: float | None
    points: list[ActivityStepInfo]


class ActivityInfo(msgspec.Struct, kw_only=True):
    """All steps in order, all of them together, and the busiest task types."""

    first: datetime = msgspec.field(name="from")
    last: datetime = msgspec.field(name="to")
    step: int
    total: ActivitySumsInfo
    points: list[ActivityStepInfo]
    task_types: list[TypeActivityInfo]


class TenantActivityInfo(msgspec.Struct, kw_only=True):
    """The same of all tenants together, and of those that ran for longest."""

    first: datetime = msgspec.field(name="from")
    last: datetime = msgspec.field(name="to")
    step: int
    total: ActivitySumsInfo
    points: list[ActivityStepInfo]
    tenants: list[TenantStepsInfo]


class UpcomingHourInfo(msgspec.Struct, kw_only=True):
    """Tasks that are due within an hour. `capped`: some were not counted, and `estimate` takes them
    to come as those before them."""

    at: datetime
    count: int
    capped: bool
    estimate: int


class LevelInfo(msgspec.Struct, kw_only=True):
    """Tasks that kept a level, and that missed it; None: none was judged."""

    kept: int
    missed: int
    share: float | None


class LevelWeekInfo(msgspec.Struct, kw_only=True):
    """The tasks of a type in a week from Monday on; of a cron job, if they were its runs."""

    week: date
    task_type: str | None  # None: further types
    cron_job_id: UUID | None
    cron_job: str | None
    start: LevelInfo
    run: LevelInfo


class LevelReportInfo(msgspec.Struct, kw_only=True):
    """The newest week first."""

    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    service_levels: list[LevelWeekInfo]
    truncated: bool
