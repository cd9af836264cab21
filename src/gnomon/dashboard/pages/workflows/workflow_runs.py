"""Runs of workflows: all of them, one with its graph, and what can be done with it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.reading import read_form
from gnomon.api.workflows.runs import WorkflowRunListQuery, run_id_of
from gnomon.api.workflows.views import WorkflowNodeView, WorkflowRunSummary, run_summary, run_view
from gnomon.dashboard.drawing.run_gantt import NodeSpan, run_gantt
from gnomon.dashboard.drawing.workflow_graph import GraphNodeView, workflow_graph
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.json_tree import shown_json
from gnomon.dashboard.text.workflow_words import counted, waiting_note
from gnomon.dashboard.text.workflow_words import run_summary as told_summary
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.checks.validation import of_texts
from gnomon.usecases.workflows import retrying, runs
from gnomon.workflow.run import WorkflowRunStatus

HERE = "/workflow-runs"
ROWS = 50
NODES = 500  # in the table
_FILTERS = ("workflow", "status")
_GOING = (WorkflowRunStatus.RUNNING, WorkflowRunStatus.FAILED)
# Which actions a status allows; what happens to a run in between is checked again.
_ALLOWED = {
    "pause": _GOING,
    "resume": (WorkflowRunStatus.PAUSED,),
    "cancel": (*_GOING, WorkflowRunStatus.PAUSED),
}
_ROLLED_BACK = (WorkflowRunStatus.ROLLING_BACK, WorkflowRunStatus.ROLLED_BACK)


@PageRoute("GET", HERE, role=Role.READ)
async def show_runs(request: Request) -> ASGIResponse:
    given = {
        name: value
        for name in _FILTERS
        if (value := request.query_params.get(name, "").replace("\0", "").strip())
    }
    wrong, status, after, cursor = None, 200, None, None
    found: list[WorkflowRunSummary] = []
    try:
        asked = of_texts(given, WorkflowRunListQuery)
        cursor = cursor_of(request.query_params.get("cursor") or None)
        found, after = await latest_runs(request, asked.workflow, asked.status, cursor)
    except InvalidTask as error:
        wrong, status = f"{error.pointer.lstrip('/')} {error.detail}", 422
    here = given | ({} if cursor is None else {"cursor": cursor_view(cursor)})
    return page(
        request,
        "workflow_runs.html",
        status,
        runs=found,
        given=given,
        statuses=list(WorkflowRunStatus),
        wrong=wrong,
        first=cursor is None,
        here=f"{HERE}?{urlencode(here)}",
        more=None if after is None else f"{HERE}?{urlencode(given | {'cursor': after})}",
    )


async def latest_runs(
    request: Request,
    workflow: str | None = None,
    status: WorkflowRunStatus | None = None,
    cursor: Any = None,
    rows: int = ROWS,
) -> tuple[list[WorkflowRunSummary], str | None]:
    """Runs, newest first, and the cursor of older ones."""
    found = await context_of(request).workflows.list_runs(
        tenant_of(request), workflow, status, cursor, rows
    )
    return [run_summary(each) for each in found.runs], cursor_view(found.more)


@PageRoute("GET", f"{HERE}/{{run_id:str}}", role=Role.READ)
async def show_run(request: Request) -> ASGIResponse:
    context, run_id = context_of(request), run_id_of(request)
    found = await context.workflows.get_run(tenant_of(request), run_id)
    view = run_view(found)
    spans = [NodeSpan(n.node, n.status, n.started_at, n.finished_at) for n in view.nodes]
    return page(
        request,
        "workflow_run.html",
        run=view,
        shown_nodes=view.nodes[:NODES],
        graph=_graph(view.nodes),
        chart=run_gantt(spans, view.created_at, view.finished_at, context.clock.now()),
        counted=counted(view.nodes),
        summary=told_summary(
            view.status, view.reason, view.nodes, ended=view.finished_at is not None
        ),
        allowed=[
            name
            for name, statuses in _ALLOWED.items()
            if view.status in statuses and view.finished_at is None
        ],
        given=None if found.run.input is None else shown_json(found.run.input),
        may_retry=view.finished_at is not None and view.status not in _ROLLED_BACK,
        may_roll_back=found.run.rolls_back and view.status not in _ROLLED_BACK,
        here=f"{HERE}/{run_id}",
    )


def _graph(nodes: Sequence[WorkflowNodeView]) -> Any:
    drawn = [
        GraphNodeView(
            name=node.node,
            after=node.after,
            status=node.status,
            note=waiting_note(node.waits_for_signal, node.waits_until),
            url=f"/tasks/{node.task_id}",
            done=node.spawned_ended if node.elements is None else node.elements_ended,
            of=node.elements or node.spawned or 0,
        )
        for node in nodes
    ]
    return workflow_graph(drawn, "The graph of the run")


@PageRoute("POST", f"{HERE}/{{run_id:str}}/cancel", role=Role.OPERATE)
async def cancel(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    by, run_id = principal_of(request), run_id_of(request)
    async with context_of(request).store.change(by.tenant_id) as change:
        await runs.cancel(change, by, run_id, interrupt=bool(form.get("interrupt")))
    return redirect(f"{HERE}/{run_id}?done=cancel")


@PageRoute("POST", f"{HERE}/{{run_id:str}}/rollback", role=Role.OPERATE)
async def roll_back(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    by, run_id = principal_of(request), run_id_of(request)
    async with context_of(request).store.change(by.tenant_id) as change:
        await runs.roll_back(change, by, run_id, interrupt=bool(form.get("interrupt")))
    return redirect(f"{HERE}/{run_id}?done=rollback")


@PageRoute("POST", f"{HERE}/{{run_id:str}}/retry", role=Role.OPERATE)
async def retry(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    by, context = principal_of(request), context_of(request)
    first = [each for each in (form.get("from") or "").split() if each] or None
    run = await retrying.accept_retry(
        context.workflows, context.rules, by, run_id_of(request), first
    )
    async with context.store.change(by.tenant_id) as change:
        await retrying.retry(change, run)
    return redirect(f"{HERE}/{run.id}?done=retry")


@PageRoute("POST", f"{HERE}/{{run_id:str}}/pause", role=Role.OPERATE)
async def pause(request: Request) -> ASGIResponse:
    return await _paused(request, paused=True)


@PageRoute("POST", f"{HERE}/{{run_id:str}}/resume", role=Role.OPERATE)
async def resume(request: Request) -> ASGIResponse:
    return await _paused(request, paused=False)


async def _paused(request: Request, *, paused: bool) -> ASGIResponse:
    await read_form(request, OVERHEAD_BYTES)
    by, run_id = principal_of(request), run_id_of(request)
    async with context_of(request).store.change(by.tenant_id) as change:
        await runs.pause(change, by, run_id, paused=paused)
    return redirect(f"{HERE}/{run_id}?done={'pause' if paused else 'resume'}")


ROUTES = (show_runs, show_run, cancel, retry, roll_back, pause, resume)
