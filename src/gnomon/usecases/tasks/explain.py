"""Explains why a task is not running."""

import msgspec

from gnomon.model.fleet.crowding import LaneKey
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE
from gnomon.model.insight.circumstances import Circumstances
from gnomon.model.insight.explanation import Explanation, explain, has_ended
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.checks.rules import TenantRules

EXECUTIONS_TOLD = 50  # the last ones


async def explain_task(
    store: PostgresTasks, rules: TenantRules, key: TaskKey
) -> tuple[Task, Explanation]:
    """The task, and what keeps it from running. Raises TaskNotFound."""
    task = await store.get(key)
    quota = rules.quotas(key.tenant_id).executions_per_minute
    around = with_quota(await store.circumstances(key), quota)
    crowd = rules.directory.crowds.get(LaneKey(key.tenant_id, task.priority))
    around = msgspec.structs.replace(around, crowd=crowd)
    ended = has_ended(task.status)
    executions = await store.last_executions(key, EXECUTIONS_TOLD) if ended else []
    return task, explain(task, around, executions)


def with_quota(around: Circumstances, quota: int | None) -> Circumstances:
    """The circumstances, with the quota: the store knows only how much of it is used."""
    limits = tuple(
        msgspec.structs.replace(use, rate=quota) if use.name == EXECUTIONS_PER_MINUTE else use
        for use in around.limits
    )
    return msgspec.structs.replace(around, limits=limits)
