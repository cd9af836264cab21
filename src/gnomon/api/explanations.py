"""`/tasks/{id}/explain`: why a task is not running."""

import msgspec
from litestar import HttpMethod, route
from litestar.response.base import ASGIResponse

from gnomon.api.context import Request, context_of, task_id_of, tenant_of
from gnomon.api.idempotency import answer, respond
from gnomon.api.incoming import queried
from gnomon.api.openapi import Operation, described
from gnomon.api.schemas import NoQuery, TaskView
from gnomon.api.views import task_view
from gnomon.model.explanation import explain
from gnomon.model.principal import Role
from gnomon.model.task import TaskKey


class ExplanationView(msgspec.Struct):
    """One sentence, the facts behind it, and the task."""

    summary: str
    facts: list[str]
    task: TaskView


@route(
    "/api/v1/tasks/{task_id:str}/explain",
    http_method=(HttpMethod.GET, HttpMethod.HEAD),
    opt=described(
        Operation(
            name="explain_task",
            role=Role.READ,
            summary="Say why a task is not running",
            query=NoQuery,
            answers={200: ExplanationView},
            errors=(404, 503),
        )
    ),
)
async def explain_task(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    store = context_of(request).store
    task = await store.get(key)
    explanation = explain(task, await store.circumstances(key))
    view = ExplanationView(explanation.summary, explanation.facts, task_view(task))
    return respond(answer(200, view))
