"""Finds the tasks that belong to one."""

from collections.abc import Sequence

from gnomon.model.tasks.related import RelatedTask
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.store.postgres.tasks.task_store import PostgresTasks


async def related_tasks(store: PostgresTasks, task: Task) -> Sequence[RelatedTask]:
    """The task that it repeats, the runs of its cron job before and after it, and the newest tasks
    that repeat it."""
    key = TaskKey(task.tenant_id, task.task_id)
    return await store.related(key, task.retry_of, task.cron_job_id, task.execute_at)
