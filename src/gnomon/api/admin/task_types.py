"""`/task-types`: the schemas that payloads of a type must satisfy, and defaults of its tasks."""

from typing import Annotated

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery
from gnomon.payload_schemas.schema import MOST_BYTES
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.task_types import ANY_PAYLOAD, TaskType
from gnomon.usecases.admin import task_types
from gnomon.usecases.checks.request_fields import Json, Moment, Strict
from gnomon.usecases.tasks.task_requests import TaskTypeDefaults

_Schema = Annotated[
    msgspec.Raw, msgspec.Meta(description="A JSON Schema, of draft 4, 6, 7, 2019-09 or 2020-12")
]
_stored = msgspec.json.Decoder(TaskTypeDefaults)


class PutTaskType(Strict):
    """The schema that payloads of this type must satisfy, and the defaults of its tasks. What is
    left out is removed."""

    schema: _Schema | msgspec.UnsetType = msgspec.UNSET
    defaults: TaskTypeDefaults | None = None


class TaskTypeView(msgspec.Struct, kw_only=True):
    """A task type, its schema (true: any payload will do) and its defaults."""

    name: str
    schema: Json
    defaults: TaskTypeDefaults
    created_at: Moment
    updated_at: Moment


class TaskTypeItem(msgspec.Struct, kw_only=True):
    """A task type that has an entry: the size of its schema, and its defaults."""

    name: str
    schema_bytes: int
    defaults: TaskTypeDefaults
    created_at: Moment
    updated_at: Moment


class TaskTypeList(msgspec.Struct):
    """All task types that have an entry, by name."""

    task_types: list[TaskTypeItem]


@Operation(
    "GET",
    "/",
    name="list_task_types",
    role=Role.READ,
    summary="List the task types that have a payload schema or defaults",
    query=NoQuery,
    answers={200: TaskTypeList},
)
async def list_task_types(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await context_of(request).task_types.list(tenant_of(request))
    items = [
        TaskTypeItem(
            name=each.name,
            schema_bytes=each.size,
            defaults=defaults_of(each.defaults),
            created_at=each.created_at,
            updated_at=each.updated_at,
        )
        for each in found
    ]
    return respond(answer(200, TaskTypeList(items)))


@Operation(
    "GET",
    "/{name:str}",
    name="get_task_type",
    role=Role.READ,
    summary="Read the payload schema and the defaults of a task type",
    query=NoQuery,
    answers={200: TaskTypeView},
    errors=(404,),
)
async def get_task_type(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    by, name = principal_of(request), request.path_params["name"]
    found = await task_types.get(context_of(request).task_types, by, name)
    return respond(answer(200, _view(found)))


@Operation(
    "PUT",
    "/{name:str}",
    name="put_task_type",
    role=Role.ADMIN,
    summary="Give a task type this payload schema and these defaults, for all tasks from now on",
    body=PutTaskType,
    body_required=True,
    answers={200: TaskTypeView, 201: TaskTypeView},
    errors=(409,),
    grows=True,
)
async def put_task_type(request: Request) -> ASGIResponse:
    context, by, name = context_of(request), principal_of(request), request.path_params["name"]
    task_types.check_name(name)  # before the body, which may be large
    body = await read_body(request, MOST_BYTES + OVERHEAD_BYTES)
    asked = decoded(body, PutTaskType)
    schema = ANY_PAYLOAD if asked.schema is msgspec.UNSET else bytes(asked.schema)
    found, created = await task_types.put(context.task_types, by, name, schema, asked.defaults)
    await context.directory.look_again()  # for the requests that follow this one here
    return respond(answer(201 if created else 200, _view(found)))


@Operation(
    "DELETE",
    "/{name:str}",
    name="delete_task_type",
    role=Role.ADMIN,
    summary="Remove the payload schema and the defaults of a task type",
    answers={204: None},
    errors=(404,),
)
async def delete_task_type(request: Request) -> ASGIResponse:
    by, name = principal_of(request), request.path_params["name"]
    await task_types.delete(context_of(request).task_types, by, name)
    return respond(answer(204))


def _view(found: TaskType) -> TaskTypeView:
    return TaskTypeView(
        name=found.name,
        schema=msgspec.Raw(found.schema),
        defaults=defaults_of(found.defaults),
        created_at=found.created_at,
        updated_at=found.updated_at,
    )


def defaults_of(text: bytes | str | None) -> TaskTypeDefaults:
    try:
        return TaskTypeDefaults() if text is None else _stored.decode(text)
    except ValueError:  # not stored by the API, and not applied either
        return TaskTypeDefaults()


router = Router(
    "/api/v1/task-types",
    route_handlers=[list_task_types, get_task_type, put_task_type, delete_task_type],
)
