"""Dead letters: what failed for good, and what to do with each."""

from typing import Any
from urllib.parse import urlencode

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.cursors import cursor_of, cursor_view
from gnomon.api.http.operation import PageRoute
from gnomon.api.http.reading import read_form
from gnomon.api.tasks.schemas import TaskFilterQuery
from gnomon.dashboard import filter_tokens
from gnomon.dashboard.pages.tasks import ROWS
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import InvalidTask
from gnomon.model.task import Resolution
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.tasks import dead_letters


@PageRoute("GET", "/dead-letters", role=Role.READ)
async def show_dead_letters(request: Request) -> ASGIResponse:
    text = request.query_params.get("q", "").replace("\0", "")
    values: dict[str, Any] = {"tasks": [], "chips": [], "more": None, "wrong": None, "first": True}
    status = 200
    try:
        tokens = filter_tokens.parsed(text, without=("status", "id", *filter_tokens.OF_BULK))
        chosen = filter_tokens.query_of(tokens, TaskFilterQuery).chosen()
        cursor = cursor_of(request.query_params.get("cursor") or None)
    except InvalidTask as error:
        status, values["wrong"] = 422, str(error)
    else:
        store = context_of(request).store
        found = await store.list_dead(tenant_of(request), chosen, cursor, ROWS)
        after = cursor_view(found.next_cursor)
        values["tasks"], values["first"] = found.tasks, cursor is None
        values["chips"] = filter_tokens.chips(tokens, "/dead-letters")
        if after is not None:
            values["more"] = "/dead-letters?" + urlencode({"q": text, "cursor": after})
    completions = [
        c for c in filter_tokens.COMPLETIONS if not c.startswith(("status:", "id:", "error:"))
    ]
    return page(request, "dead_letters.html", status, q=text, completions=completions, **values)


@PageRoute("POST", "/dead-letters/{task_id:str}/retry", role=Role.OPERATE, grows=True)
async def retry(request: Request) -> ASGIResponse:
    context, by, task_id = context_of(request), principal_of(request), task_id_of(request)
    await read_form(request, OVERHEAD_BYTES)
    async with context.store.change(by.tenant_id) as change:
        await dead_letters.retry(change, context.rules, by, task_id)
    return redirect("/dead-letters?done=retry")


@PageRoute("POST", "/dead-letters/{task_id:str}/archive", role=Role.OPERATE)
async def archive(request: Request) -> ASGIResponse:
    return await _resolve(request, Resolution.ARCHIVED, "archive")


@PageRoute("POST", "/dead-letters/{task_id:str}/discard", role=Role.OPERATE)
async def discard(request: Request) -> ASGIResponse:
    return await _resolve(request, Resolution.DISCARDED, "discard")


async def _resolve(request: Request, resolution: Resolution, done: str) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)
    await read_form(request, OVERHEAD_BYTES)
    async with context_of(request).store.change(by.tenant_id) as change:
        await dead_letters.resolve(change, by, task_id, resolution)
    return redirect(f"/dead-letters?done={done}")


ROUTES = (show_dead_letters, retry, archive, discard)
