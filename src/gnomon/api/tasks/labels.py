"""`/tasks/labels`: what the newest tasks are called, for those who complete a filter."""

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import NoQuery


class TaskLabelsView(msgspec.Struct, kw_only=True):
    """Task types, tags and queues of the newest tasks, the commonest first."""

    task_types: list[str]
    tags: list[str]
    queues: list[str]


@Operation(
    "GET",
    "/api/v1/tasks/labels",
    name="get_task_labels",
    role=Role.READ,
    summary="List task types, tags and queues of the newest tasks",
    query=NoQuery,
    answers={200: TaskLabelsView},
)
async def get_task_labels(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await context_of(request).store.labels(tenant_of(request))
    view = TaskLabelsView(task_types=found.task_types, tags=found.tags, queues=found.queues)
    return respond(answer(200, view))
