"""Activity over time, what is scheduled, and service levels."""

from datetime import datetime
from uuid import UUID

from gnomon.client.call import Call
from gnomon.client.types.activity import (
    ActivityInfo,
    LevelReportInfo,
    TenantActivityInfo,
    UpcomingHourInfo,
)
from gnomon.model.tasks.priority import Priority


def get_activity(
    *,
    first: datetime | str | None = None,
    last: datetime | str | None = None,
    step: int | None = None,
    priority: Priority | str | None = None,
    task_type: str | None = None,
) -> Call[ActivityInfo]:
    """Reads what was submitted and started, and how it ended, in steps of so many seconds; else of
    the last hour."""
    query = _query(first, last, step, priority) | {"task_type": task_type}
    return Call(method="GET", path="/activity", query=query, answer=ActivityInfo)


def get_tenant_activity(
    *,
    first: datetime | str | None = None,
    last: datetime | str | None = None,
    step: int | None = None,
    priority: Priority | str | None = None,
) -> Call[TenantActivityInfo]:
    """Reads the same of all tenants, and of those that ran for longest."""
    query = _query(first, last, step, priority)
    return Call(method="GET", path="/activity/tenants", query=query, answer=TenantActivityInfo)


def get_upcoming_tasks() -> Call[list[UpcomingHourInfo]]:
    """Counts what is scheduled for the next 24 hours, by the hour."""
    return Call(method="GET", path="/tasks/upcoming", answer=list[UpcomingHourInfo], member="hours")


def get_service_levels(
    *, weeks: int | None = None, task_type: str | None = None, cron_job_id: UUID | str | None = None
) -> Call[LevelReportInfo]:
    """Reads how many tasks of each type and cron job kept their service levels, by the week; of the
    last 4 weeks, unless told otherwise."""
    query = {"weeks": weeks, "task_type": task_type, "cron_job_id": cron_job_id}
    return Call(method="GET", path="/service-levels", query=query, answer=LevelReportInfo)


def _query(
    first: datetime | str | None,
    last: datetime | str | None,
    step: int | None,
    priority: Priority | str | None,
) -> dict[str, object]:
    return {"from": first, "to": last, "step": step, "priority": priority}
