"""Dead letters: tasks whose retries are spent, until somebody decides about them."""

from uuid import UUID

from gnomon.access.principal import Principal
from gnomon.model.errors import TaskNotFound
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Resolution, Task, TaskKey
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.checks.authorization import check_held, check_startable
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.text_check import check_resolution_note


async def read(store: PostgresTasks, key: TaskKey) -> Task:
    """A dead letter, resolved or not. Raises TaskNotFound, also for a task that is none."""
    task = await store.get(key)
    if task.status is not Status.DEAD_LETTERED:
        raise TaskNotFound(key.id)
    return task


async def retry(
    change: PostgresTaskChange, rules: TenantRules, by: Principal, task_id: UUID
) -> Task:
    """Runs a dead letter again, with a new retry budget. Raises IllegalTransition."""
    await check_startable(change, rules, by, task_id)
    return await change.redrive(task_id)


async def resolve(
    change: PostgresTaskChange,
    by: Principal,
    task_id: UUID,
    resolution: Resolution,
    note: str | None = None,
) -> Task:
    """Moves a dead letter to the archive. Raises IllegalTransition, InvalidTask."""
    check_resolution_note(note)
    await check_held(change, by, task_id)
    return await change.resolve(task_id, resolution, by.name, note or None)
