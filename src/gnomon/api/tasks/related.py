"""`/tasks/{id}/related`: the tasks that belong to one."""

from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, task_id_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import NoQuery
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.related import Relation
from gnomon.model.tasks.task import TaskKey
from gnomon.usecases.checks.request_fields import Moment
from gnomon.usecases.tasks.related import related_tasks


class RelatedTaskView(msgspec.Struct):
    """A task that belongs to another one."""

    relation: Relation
    task_id: UUID
    status: Status
    execute_at: Moment


class RelatedTaskList(msgspec.Struct):
    """The tasks that belong to one."""

    tasks: list[RelatedTaskView]


@Operation(
    "GET",
    "/api/v1/tasks/{task_id:str}/related",
    name="list_related_tasks",
    role=Role.READ,
    summary="List the task that this one repeats, those that repeat it, and the runs around it",
    query=NoQuery,
    answers={200: RelatedTaskList},
    errors=(404,),
)
async def list_related_tasks(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    store = context_of(request).store
    task = await store.get(TaskKey(tenant_of(request), task_id_of(request)))
    found = await related_tasks(store, task)
    tasks = [
        RelatedTaskView(each.relation, each.task_id, each.status, each.execute_at) for each in found
    ]
    return respond(answer(200, RelatedTaskList(tasks)))
