"""`/tasks/{id}/explain`: why a task is not running."""

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, task_id_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import NoQuery, TaskView
from gnomon.api.tasks.views import task_view
from gnomon.model.insight.explanation import HoldKind
from gnomon.model.tasks.task import TaskKey
from gnomon.usecases.tasks import explain


class HoldView(msgspec.Struct):
    """One thing that keeps a task from running, by its name."""

    kind: HoldKind
    name: str


class ExplanationView(msgspec.Struct):
    """One sentence, the facts behind it, what would help, what holds the task up, and the task."""

    summary: str
    facts: list[str]
    remedies: list[str]
    held_by: list[HoldView]
    task: TaskView


@Operation(
    "GET",
    "/api/v1/tasks/{task_id:str}/explain",
    name="explain_task",
    role=Role.READ,
    summary="Explain why a task is not running",
    query=NoQuery,
    answers={200: ExplanationView},
    errors=(404,),
)
async def explain_task(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    context = context_of(request)
    task, explanation = await explain.explain_task(context.store, context.rules, key)
    view = ExplanationView(
        explanation.summary,
        explanation.facts,
        explanation.remedies,
        [HoldView(each.kind, each.name) for each in explanation.held_by],
        task_view(task),
    )
    return respond(answer(200, view))
