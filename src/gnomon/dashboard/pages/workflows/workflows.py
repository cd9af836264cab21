"""Workflows: all of them, and one with its graph and latest runs."""

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.answers.problems import described
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import read_form
from gnomon.api.workflows.workflows import name_of
from gnomon.dashboard.drawing.workflow_graph import GraphNodeView, workflow_graph
from gnomon.dashboard.pages.workflows.workflow_runs import HERE as RUNS
from gnomon.dashboard.pages.workflows.workflow_runs import latest_runs
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.json_tree import shown_json
from gnomon.dashboard.text.workflow_words import node_note
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.checks.authorization import check_whole, withheld
from gnomon.usecases.workflows import definitions, runs

HERE = "/workflows"
LATEST = 10


@PageRoute("GET", HERE, role=Role.READ)
async def show_workflows(request: Request) -> ASGIResponse:
    found = await context_of(request).workflows.list(tenant_of(request))
    latest, _ = await latest_runs(request, rows=LATEST)
    return page(request, "workflows.html", workflows=found, runs=latest, here=HERE)


@PageRoute("GET", f"{HERE}/{{name:str}}", role=Role.READ)
async def show_workflow(request: Request) -> ASGIResponse:
    return await _page(request)


async def _page(
    request: Request, status: int = 200, typed: str = "", wrong: str = ""
) -> ASGIResponse:
    name = name_of(request)
    found = await context_of(request).workflows.get(tenant_of(request), name, None)
    latest, _ = await latest_runs(request, name, rows=LATEST)
    definition = definitions.masked(found.definition)
    nodes = _nodes(msgspec.json.decode(definition))
    drawn = [
        GraphNodeView(name=each["name"], after=each["after"], note=each["note"]) for each in nodes
    ]
    return page(
        request,
        "workflow.html",
        status,
        workflow=found,
        nodes=nodes,
        graph=workflow_graph(drawn, f"The graph of {name}"),
        definition=shown_json(definition),
        runs=latest,
        typed=typed,
        wrong=wrong,
        here=_address(name),
    )


def _nodes(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """What is shown of each node."""
    edges: dict[str, list[str]] = {}
    for parent, child in definition.get("edges") or ():
        edges.setdefault(child, []).append(parent)
    return [
        {
            "name": name,
            "note": node_note(name, node),
            "after": list(dict.fromkeys([*(node.get("after") or ()), *edges.get(name, ())])),
            "when": node.get("when") or "all_succeeded",
            "on_failure": node.get("on_failure") or "fail",
        }
        for name, node in definition["nodes"].items()
    ]


@PageRoute("POST", f"{HERE}/{{name:str}}/start", role=Role.SUBMIT, grows=True)
async def start(request: Request) -> ASGIResponse:
    context, by, name = context_of(request), principal_of(request), name_of(request)
    typed = (await read_form(request, context.settings.api.max_payload_bytes + OVERHEAD_BYTES)).get(
        "input", ""
    )
    found = await context.workflows.get(by.tenant_id, name, None)
    definition = await asyncio.to_thread(definitions.definition_of, found)
    try:
        given = _input(typed)
        run = await asyncio.to_thread(
            runs.accept_run, context.rules, by, definition, given, None, found.version
        )
        async with context.store.change(by.tenant_id) as change:
            await runs.start(change, run)
    except InvalidTask as error:
        if not by.may(Role.READ):
            if error.pointer == "/input":
                raise
            raise withheld(by, error, "/definition") from error
        return await _page(request, described(error)[0].status, typed, str(error))
    if not by.may(Role.READ):
        return redirect("/tasks/new?done=workflow_started")
    return redirect(f"{RUNS}/{run.id}?done=workflow_started")


def _input(typed: str) -> msgspec.Raw | msgspec.UnsetType:
    if not typed.strip():
        return msgspec.UNSET
    try:
        msgspec.json.decode(typed)
    except msgspec.DecodeError as error:
        raise InvalidTask(f"the input is not JSON: {error}", "/input") from error
    return msgspec.Raw(typed.encode())


@PageRoute("POST", f"{HERE}/{{name:str}}/delete", role=Role.OPERATE)
async def delete(request: Request) -> ASGIResponse:
    await read_form(request, OVERHEAD_BYTES)
    by = principal_of(request)
    check_whole(by)
    await context_of(request).workflows.delete(by.tenant_id, name_of(request))
    return redirect(f"{HERE}?done=workflow_deleted")


def _address(name: str) -> str:
    return f"{HERE}/{quote(name, safe='')}"


ROUTES = (show_workflows, show_workflow, start, delete)
