"""A job for tests of rules about runs."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from gnomon.cron.job import CronJob, Definition
from gnomon.model.targets.target import PythonTarget

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def a_job(number: int = 7, *, runs: int = 0, next_fire_at: Any = NOON, **values: Any) -> CronJob:
    """A job that fires every minute, unless told otherwise."""
    fields: dict[str, Any] = {
        "name": "job",
        "task_type": "test",
        "target": PythonTarget("nothing"),
    }
    if "interval_seconds" not in values:
        fields["cron_expression"] = "* * * * *"
    return CronJob(
        id=UUID(int=number),
        tenant_id="acme",
        definition=Definition(**(fields | values)),
        version=1,
        next_fire_at=next_fire_at,
        runs=runs,
        active_task_id=None,
        paused_at=None,
        pause_reason=None,
        created_at=NOON,
        updated_at=NOON,
        created_by="ann",
    )
