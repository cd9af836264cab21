"""`/workflow-runs`: runs of workflows."""

import asyncio
from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, id_of, principal_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.idempotency import Answer, answer, changed, changed_by, respond
from gnomon.api.http.requests.origins import requested_origin
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery, Nothing
from gnomon.api.tasks.waiting import read_at_end
from gnomon.api.workflows.views import (
    NodeOutputView,
    WorkflowRunList,
    WorkflowRunReceipt,
    WorkflowRunView,
    output_view,
    run_summary,
    run_view,
)
from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.task import TaskKey
from gnomon.model.workflow_errors import OutputNotFound, WorkflowRunNotFound
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.request_fields import DEFAULT_LIMIT, LONGEST_WAIT, Limit, Strict
from gnomon.usecases.workflows import retrying, runs
from gnomon.usecases.workflows.workflow_requests import (
    CancelWorkflowRun,
    RetryWorkflowRun,
    RollBackWorkflowRun,
    StartAdHocRun,
    WorkflowName,
)
from gnomon.workflow.run import WorkflowRunStatus

PATH = "/api/v1/workflow-runs"
RunWaitSeconds = Annotated[
    float,
    msgspec.Meta(
        ge=0,
        le=LONGEST_WAIT,
        description="Answer when the run has ended or is held up, or after this long",
    ),
]


class GetRunQuery(Strict):
    """How a run is read."""

    wait: RunWaitSeconds = 0.0


class WorkflowRunListQuery(Strict):
    """A filter of runs; without a parameter: all of them."""

    workflow: WorkflowName | None = None
    status: WorkflowRunStatus | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


@Operation(
    "POST",
    "/",
    name="start_ad_hoc_run",
    role=Role.SUBMIT,
    summary="Start a run of a workflow that is given with it",
    body=StartAdHocRun,
    body_required=True,
    answers={202: WorkflowRunView},
    receipt=WorkflowRunReceipt,
    grows=True,
    keyed=True,
    paced=True,
)
async def start_ad_hoc_run(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, context.settings.api.max_batch_bytes)
    asked = await asyncio.to_thread(decoded, body, StartAdHocRun)
    origin = requested_origin(request)
    try:
        run = await asyncio.to_thread(
            runs.accept_run, context.rules, by, asked.definition, asked.input, origin
        )
    except InvalidTask as error:
        raise error if error.pointer == "/input" else error.within("/definition") from error

    async def act(change: PostgresTaskChange) -> Answer:
        runs.check_room(context.rules, run)
        return answer(202, run_view(await runs.start(change, run)))

    return await changed(request, body, act)


@Operation(
    "GET",
    "/",
    name="list_workflow_runs",
    role=Role.READ,
    summary="List runs of workflows, newest first",
    query=WorkflowRunListQuery,
    answers={200: WorkflowRunList},
)
async def list_workflow_runs(request: Request) -> ASGIResponse:
    asked = queried(request, WorkflowRunListQuery)
    page = await context_of(request).workflows.list_runs(
        tenant_of(request), asked.workflow, asked.status, cursor_of(asked.cursor), asked.limit
    )
    views = [run_summary(each) for each in page.runs]
    return respond(answer(200, WorkflowRunList(views, cursor_view(page.more))))


@Operation(
    "GET",
    "/{run_id:str}",
    name="get_workflow_run",
    role=Role.READ,
    summary="Read a run of a workflow, with its nodes; with wait, once it has ended",
    query=GetRunQuery,
    answers={200: WorkflowRunView},
    errors=(404,),
)
async def get_workflow_run(request: Request) -> ASGIResponse:
    asked, context = queried(request, GetRunQuery), context_of(request)
    key = TaskKey(tenant_of(request), run_id_of(request))
    found = await read_at_end(
        request,
        context.run_ends,
        key,
        asked.wait,
        lambda: context.workflows.get_run(key.tenant_id, key.id),
        lambda read: read.run.stands,
    )
    return respond(answer(200, run_view(found)))


@Operation(
    "POST",
    "/{run_id:str}/cancel",
    name="cancel_workflow_run",
    role=Role.OPERATE,
    summary="Cancel a run: what has not started never does",
    body=CancelWorkflowRun,
    answers={200: WorkflowRunView},
    receipt=WorkflowRunReceipt,
    errors=(404, 409),
    keyed=True,
)
async def cancel_workflow_run(request: Request) -> ASGIResponse:
    run_id, by = run_id_of(request), principal_of(request)

    async def act(change: PostgresTaskChange, asked: CancelWorkflowRun) -> Answer:
        end = runs.roll_back if asked.rollback else runs.cancel
        found = await end(change, by, run_id, interrupt=asked.interrupt)
        return answer(200, run_view(found))

    return await changed_by(request, CancelWorkflowRun, act)


@Operation(
    "POST",
    "/{run_id:str}/rollback",
    name="roll_back_workflow_run",
    role=Role.OPERATE,
    summary="Roll a run back: what undoes its completed nodes runs, the last ones first",
    body=RollBackWorkflowRun,
    answers={200: WorkflowRunView},
    receipt=WorkflowRunReceipt,
    errors=(404,),
    keyed=True,
)
async def roll_back_workflow_run(request: Request) -> ASGIResponse:
    run_id, by = run_id_of(request), principal_of(request)

    async def act(change: PostgresTaskChange, asked: RollBackWorkflowRun) -> Answer:
        found = await runs.roll_back(change, by, run_id, interrupt=asked.interrupt)
        return answer(200, run_view(found))

    return await changed_by(request, RollBackWorkflowRun, act)


@Operation(
    "POST",
    "/{run_id:str}/retry",
    name="retry_workflow_run",
    role=Role.OPERATE,
    summary="Start a new run from some nodes of one that has ended; the others lend their outputs",
    body=RetryWorkflowRun,
    answers={202: WorkflowRunView},
    receipt=WorkflowRunReceipt,
    errors=(404, 409),
    grows=True,
    keyed=True,
    paced=True,
)
async def retry_workflow_run(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, context.settings.api.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, RetryWorkflowRun)
    run = await retrying.accept_retry(
        context.workflows,
        context.rules,
        by,
        run_id_of(request),
        asked.from_,
        requested_origin(request),
    )

    async def act(change: PostgresTaskChange) -> Answer:
        return answer(202, run_view(await retrying.retry(change, run)))

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{run_id:str}/pause",
    name="pause_workflow_run",
    role=Role.OPERATE,
    summary="Pause a run: nothing of it starts until it is resumed",
    body=Nothing,
    answers={200: WorkflowRunView},
    receipt=WorkflowRunReceipt,
    errors=(404, 409),
    keyed=True,
)
async def pause_workflow_run(request: Request) -> ASGIResponse:
    return await _pause(request, paused=True)


@Operation(
    "POST",
    "/{run_id:str}/resume",
    name="resume_workflow_run",
    role=Role.OPERATE,
    summary="Let a paused run go on",
    body=Nothing,
    answers={200: WorkflowRunView},
    receipt=WorkflowRunReceipt,
    errors=(404, 409),
    keyed=True,
)
async def resume_workflow_run(request: Request) -> ASGIResponse:
    return await _pause(request, paused=False)


@Operation(
    "GET",
    "/{run_id:str}/outputs/{node:str}",
    name="get_node_output",
    role=Role.READ,
    summary="Read the output of a node that has ended",
    query=NoQuery,
    answers={200: NodeOutputView},
    errors=(404,),
)
async def get_node_output(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    run_id, node = run_id_of(request), str(request.path_params["node"])
    if not node.isprintable():
        raise OutputNotFound(repr(node[:100]))
    found = await context_of(request).workflows.output(tenant_of(request), run_id, node)
    return respond(answer(200, output_view(found)))


async def _pause(request: Request, *, paused: bool) -> ASGIResponse:
    run_id, by = run_id_of(request), principal_of(request)

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return answer(200, run_view(await runs.pause(change, by, run_id, paused=paused)))

    return await changed_by(request, Nothing, act)


def run_id_of(request: Request) -> UUID:
    """The id in the path. Raises WorkflowRunNotFound for text that is no id."""
    return id_of(request, "run_id", WorkflowRunNotFound)


router = Router(
    PATH,
    route_handlers=[
        start_ad_hoc_run,
        list_workflow_runs,
        get_workflow_run,
        cancel_workflow_run,
        roll_back_workflow_run,
        retry_workflow_run,
        pause_workflow_run,
        resume_workflow_run,
        get_node_output,
    ],
)
