"""`/workflows`: definitions that are kept under a name, and runs of them."""

import asyncio
from typing import Annotated

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import Answer, answer, changed, respond, shown
from gnomon.api.http.requests.origins import requested_origin
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery
from gnomon.api.workflows.views import WorkflowRunReceipt, WorkflowRunView, run_view
from gnomon.model.errors import InvalidTask
from gnomon.model.workflow_errors import WorkflowNotFound
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.workflows import WorkflowVersion
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.authorization import check_whole, withheld
from gnomon.usecases.checks.request_fields import Json, Moment, Strict
from gnomon.usecases.workflows import definitions, runs
from gnomon.usecases.workflows.workflow_requests import StartWorkflowRun, WorkflowDefinition

MOST_BYTES = 4 << 20  # of a definition


class WorkflowView(msgspec.Struct, kw_only=True):
    """A version of a workflow."""

    name: str
    version: int
    definition: Json
    created_at: Moment
    created_by: str | None


class WorkflowReceipt(msgspec.Struct):
    """The answer to those who may not read."""

    name: str
    version: int


class WorkflowEntry(msgspec.Struct, kw_only=True):
    """The newest version of a workflow, without its definition."""

    name: str
    version: int
    created_at: Moment
    created_by: str | None


class WorkflowList(msgspec.Struct):
    """All workflows, by name."""

    workflows: list[WorkflowEntry]


class WorkflowQuery(Strict):
    """Which version; without it, the newest."""

    version: Annotated[int, msgspec.Meta(ge=1)] | None = None


@Operation(
    "POST",
    "/",
    name="put_workflow",
    role=Role.OPERATE,
    summary="Define a workflow, or its next version",
    body=WorkflowDefinition,
    body_required=True,
    answers={200: WorkflowView, 201: WorkflowView},
    receipt=WorkflowReceipt,
    errors=(409,),
    grows=True,
)
async def put_workflow(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, MOST_BYTES)
    asked = await asyncio.to_thread(decoded, body, WorkflowDefinition)
    found, created = await definitions.put(context.workflows, context.rules, by, asked, body)
    return respond(shown(request, answer(201 if created else 200, _view(found))))


@Operation(
    "GET",
    "/",
    name="list_workflows",
    role=Role.READ,
    summary="List workflows, each with its newest version",
    query=NoQuery,
    answers={200: WorkflowList},
)
async def list_workflows(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await context_of(request).workflows.list(tenant_of(request))
    entries = [
        WorkflowEntry(
            name=each.name,
            version=each.version,
            created_at=each.created_at,
            created_by=each.created_by,
        )
        for each in found
    ]
    return respond(answer(200, WorkflowList(entries)))


@Operation(
    "GET",
    "/{name:str}",
    name="get_workflow",
    role=Role.READ,
    summary="Read a workflow, its newest version or another",
    query=WorkflowQuery,
    answers={200: WorkflowView},
    errors=(404,),
)
async def get_workflow(request: Request) -> ASGIResponse:
    asked = queried(request, WorkflowQuery)
    found = await context_of(request).workflows.get(
        tenant_of(request), name_of(request), asked.version
    )
    return respond(answer(200, _view(found)))


@Operation(
    "DELETE",
    "/{name:str}",
    name="delete_workflow",
    role=Role.OPERATE,
    summary="Forget a workflow, all its versions; runs of it go on",
    answers={204: None},
    errors=(404,),
)
async def delete_workflow(request: Request) -> ASGIResponse:
    check_whole(principal_of(request))
    await context_of(request).workflows.delete(tenant_of(request), name_of(request))
    return respond(answer(204))


@Operation(
    "POST",
    "/{name:str}/runs",
    name="start_workflow_run",
    role=Role.SUBMIT,
    summary="Start a run of a workflow",
    body=StartWorkflowRun,
    answers={202: WorkflowRunView},
    receipt=WorkflowRunReceipt,
    errors=(404,),
    grows=True,
    keyed=True,
    paced=True,
)
async def start_workflow_run(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, context.settings.api.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, StartWorkflowRun)
    found = await context.workflows.get(by.tenant_id, name_of(request), asked.version)
    definition = await asyncio.to_thread(definitions.definition_of, found)
    origin = requested_origin(request)
    try:
        run = await asyncio.to_thread(
            runs.accept_run, context.rules, by, definition, asked.input, origin, found.version
        )
    except InvalidTask as error:
        if error.pointer == "/input":
            raise
        raise withheld(by, error, "/definition") from error

    async def act(change: PostgresTaskChange) -> Answer:
        runs.check_room(context.rules, run)
        return answer(202, run_view(await runs.start(change, run)))

    return await changed(request, body, act)


def name_of(request: Request) -> str:
    """The name in the path. Raises WorkflowNotFound for text that can be none."""
    name: str = request.path_params["name"]
    if not name.isprintable() or len(name) > 200:
        raise WorkflowNotFound(repr(name[:200]))
    return name


def _view(found: WorkflowVersion) -> WorkflowView:
    return WorkflowView(
        name=found.name,
        version=found.version,
        definition=msgspec.Raw(definitions.masked(found.definition)),
        created_at=found.created_at,
        created_by=found.created_by,
    )


router = Router(
    "/api/v1/workflows",
    route_handlers=[
        put_workflow,
        list_workflows,
        get_workflow,
        delete_workflow,
        start_workflow_run,
    ],
)
