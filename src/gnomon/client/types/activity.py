"""Activity over time, and what is scheduled."""

from datetime import datetime

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
