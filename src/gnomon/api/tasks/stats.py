"""`/tasks/stats`: how many tasks there are, and what waits and runs where."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import TaskFilterQuery
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Priority
from gnomon.store.ports.insight.stats import CappedCount, Load, TaskStats

MOST_SHOWN = 100  # types, and queues: the busiest

_K = TypeVar("_K")


class CountView(msgspec.Struct):
    """A number; capped: there are so many at the least, and the rest was not counted."""

    count: int
    capped: bool


class LoadView(msgspec.Struct, kw_only=True):
    """Tasks that are due and tasks that run, and how long the first of the due has waited."""

    ready: CountView
    running: CountView
    oldest_ready_seconds: float | None


class LaneLoad(LoadView, kw_only=True):
    """The load of a lane."""

    priority: Priority


class TypeLoad(LoadView, kw_only=True):
    """The load of a task type."""

    task_type: str


class QueueLoad(LoadView, kw_only=True):
    """The load of a queue; null: of tasks without one."""

    queue: str | None


class TaskStatsView(msgspec.Struct, kw_only=True):
    """Tasks by status, and what is due and running by lane, task type and queue."""

    statuses: dict[Status, CountView]
    lanes: list[LaneLoad]
    task_types: list[TypeLoad]
    queues: list[QueueLoad]


@Operation(
    "GET",
    "/api/v1/tasks/stats",
    name="get_task_stats",
    role=Role.READ,
    summary="Count tasks by status, and what waits and runs by lane, type and queue",
    query=TaskFilterQuery,
    answers={200: TaskStatsView},
)
async def get_task_stats(request: Request) -> ASGIResponse:
    chosen = queried(request, TaskFilterQuery).chosen()
    found = await context_of(request).store.stats(tenant_of(request), chosen)
    return respond(answer(200, _view(found)))


def _view(found: TaskStats) -> TaskStatsView:
    return TaskStatsView(
        statuses={status: _count(tally) for status, tally in found.statuses.items()},
        lanes=[
            LaneLoad(priority=Priority[lane.name], **_load(load))
            for lane, load in found.lanes.items()
        ],
        task_types=[
            TypeLoad(task_type=name, **_load(load)) for name, load in _busiest(found.task_types)
        ],
        queues=[QueueLoad(queue=name, **_load(load)) for name, load in _busiest(found.queues)],
    )


def _busiest(loads: Mapping[_K, Load]) -> list[tuple[_K, Load]]:
    def rank(each: tuple[_K, Load]) -> tuple[int, str]:
        name, load = each
        return -(load.ready.count + load.running.count), str(name)

    return sorted(loads.items(), key=rank)[:MOST_SHOWN]


def _load(load: Load) -> dict[str, Any]:
    return {
        "ready": _count(load.ready),
        "running": _count(load.running),
        "oldest_ready_seconds": load.oldest_ready_seconds,
    }


def _count(tally: CappedCount) -> CountView:
    return CountView(tally.count, tally.capped)
