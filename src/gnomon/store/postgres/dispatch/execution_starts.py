"""Reads when executions began."""

from datetime import datetime

from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database


async def execution_start(database: Database, key: TaskKey, attempt: int) -> datetime | None:
    """When this execution of a task began, if it has ended and did not complete the task."""
    row = await database.fetchrow("execution_start", key.tenant_id, key.id, attempt)
    started_at: datetime | None = None if row is None else row["started_at"]
    return started_at
