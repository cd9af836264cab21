"""Finds out whether tasks are stuck, by all that would explain why they do not run."""

from collections.abc import Collection
from datetime import timedelta

from gnomon.model.errors import TaskNotFound
from gnomon.model.insight.stuck import Stuck, stuck
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.store.ports.insight.nodes import ListedNode
from gnomon.store.ports.roster import NodeKind
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.tasks.explain import with_quota


async def examine(
    store: PostgresTasks,
    quota: int | None,
    key: TaskKey,
    after: timedelta,
    with_free_slots: Collection[str],
) -> tuple[Task | None, Stuck | None]:
    """The task, if it is still there, and how it is stuck, if it is. `quota`: of executions a
    minute."""
    try:
        task = await store.get(key)
    except TaskNotFound:
        return None, None
    around = with_quota(await store.circumstances(key), quota)
    return task, stuck(task, around, after, with_free_slots)


def free(nodes: Collection[ListedNode]) -> frozenset[str]:
    """The names of the live nodes that have a free slot. Those of a gateway are each of some
    session, which may not handle the task."""
    return frozenset(
        node.name
        for node in nodes
        if not node.dead and node.kind is NodeKind.NODE and node.running < node.slots
    )
