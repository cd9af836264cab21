"""`/tasks/{id}/explain`: why a task is not running."""

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, task_id_of, tenant_of
from gnomon.api.http.idempotency import answer, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import queried
from gnomon.api.tasks.schemas import NoQuery, TaskView
from gnomon.api.tasks.views import task_view
from gnomon.model.explanation import Circumstances, explain
from gnomon.model.task import TaskKey
from gnomon.model.tenant import EXECUTIONS_PER_MINUTE


class ExplanationView(msgspec.Struct):
    """One sentence, the facts behind it, and the task."""

    summary: str
    facts: list[str]
    task: TaskView


@Operation(
    "GET",
    "/api/v1/tasks/{task_id:str}/explain",
    name="explain_task",
    role=Role.READ,
    summary="Say why a task is not running",
    query=NoQuery,
    answers={200: ExplanationView},
    errors=(404,),
)
async def explain_task(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    context = context_of(request)
    task = await context.store.get(key)
    quota = context.directory.quotas(key.tenant_id).executions_per_minute
    around = _with_quota(await context.store.circumstances(key), quota)
    explanation = explain(task, around)
    view = ExplanationView(explanation.summary, explanation.facts, task_view(task))
    return respond(answer(200, view))


def _with_quota(around: Circumstances, quota: int | None) -> Circumstances:
    """The store knows what is used of it, and not what it is."""
    limits = tuple(
        msgspec.structs.replace(use, rate=quota) if use.name == EXECUTIONS_PER_MINUTE else use
        for use in around.limits
    )
    return msgspec.structs.replace(around, limits=limits)
