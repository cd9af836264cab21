"""Dead letters: tasks whose retries are spent, until somebody decides about them."""

from uuid import UUID

import msgspec

from gnomon.access.grant_errors import LimitedKey, TypeForbidden
from gnomon.access.principal import Principal
from gnomon.model.errors import TaskNotFound
from gnomon.model.lifecycle import Status
from gnomon.model.task import Resolution, Task, TaskKey
from gnomon.store.ports.tasks import TaskFilter
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.checks.authorization import check_held, check_startable, check_type
from gnomon.usecases.checks.rules import TenantRules

MOST_REDRIVEN = 10_000  # in one transaction


class Redriven(msgspec.Struct, frozen=True):
    """How many dead letters run again, and whether the same request would find more."""

    retried: int
    more: bool


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
    change: PostgresTaskChange, by: Principal, task_id: UUID, resolution: Resolution
) -> Task:
    """Moves a dead letter to the archive. Raises IllegalTransition."""
    await check_held(change, by, task_id)
    return await change.resolve(task_id, resolution)


async def retry_matching(change: PostgresTaskChange, by: Principal, chosen: TaskFilter) -> Redriven:
    """Runs the dead letters that match again, at most MOST_REDRIVEN of them. Raises LimitedKey,
    TypeForbidden."""
    check_matching(by, chosen)
    return Redriven(*await change.redrive_matching(chosen, MOST_REDRIVEN))


def check_matching(by: Principal, chosen: TaskFilter) -> None:
    """Raises LimitedKey, TypeForbidden where the filter may match dead letters that the principal
    may not start."""
    if by.allow.limits:
        raise LimitedKey("your key is limited to some targets: retry dead letters one by one")
    if by.task_types is not None and chosen.task_type is None:
        detail = f"must be given: your key is only for {', '.join(sorted(by.task_types))}"
        raise TypeForbidden(detail, "/task_type")
    check_type(by, chosen.task_type or "")
