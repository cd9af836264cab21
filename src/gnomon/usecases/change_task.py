"""Changes of a task that exists, each within one transaction of its tenant."""

from uuid import UUID

from gnomon.access.principal import Principal
from gnomon.model.task import Task
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.authorization import check_held


async def cancel(
    change: PostgresTaskChange, by: Principal, task_id: UUID, *, interrupt: bool
) -> Task:
    """Cancels a task; a running one only with `interrupt`. Raises IllegalTransition."""
    await check_held(change, by, task_id)
    return await change.cancel(task_id, interrupt=interrupt)


async def pause(change: PostgresTaskChange, by: Principal, task_id: UUID) -> Task:
    """Keeps a waiting task from running. Raises IllegalTransition."""
    await check_held(change, by, task_id)
    return await change.pause(task_id)


async def resume(change: PostgresTaskChange, by: Principal, task_id: UUID) -> Task:
    """Lets a paused task run again. Raises IllegalTransition."""
    await check_held(change, by, task_id)
    return await change.resume(task_id)


async def delete(change: PostgresTaskChange, by: Principal, task_id: UUID) -> None:
    """Removes a task, its payload and its executions. Raises IllegalTransition where it runs."""
    await check_held(change, by, task_id)
    await change.delete(task_id)
