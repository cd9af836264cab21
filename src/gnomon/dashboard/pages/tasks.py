"""The list of tasks, by a filter that is in the address."""

from urllib.parse import urlencode

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.cursors import cursor_of, cursor_view
from gnomon.api.http.operation import PageRoute
from gnomon.api.tasks.schemas import TaskFilterQuery
from gnomon.dashboard import filter_tokens
from gnomon.dashboard.rendering import page
from gnomon.model.errors import InvalidTask

ROWS = 50


@PageRoute("GET", "/tasks", role=Role.READ)
async def show_tasks(request: Request) -> ASGIResponse:
    text = request.query_params.get("q", "").replace("\0", "")
    try:
        tokens = filter_tokens.parsed(text, without=filter_tokens.OF_BULK)
        chosen = filter_tokens.query_of(tokens, TaskFilterQuery).chosen()
        cursor = cursor_of(request.query_params.get("cursor") or None)
    except InvalidTask as error:
        return _page(request, 422, text, wrong=str(error))
    found = await context_of(request).store.list(tenant_of(request), chosen, cursor, ROWS)
    after = cursor_view(found.next_cursor)
    return _page(
        request,
        200,
        filter_tokens.written(tokens),
        tasks=found.tasks,
        chips=filter_tokens.chips(tokens, "/tasks"),
        more=None if after is None else "/tasks?" + urlencode({"q": text, "cursor": after}),
        first=cursor is None,
    )


def _page(request: Request, status: int, text: str, **values: object) -> ASGIResponse:
    shown = {"tasks": [], "chips": [], "more": None, "first": True, "wrong": None, **values}
    return page(
        request, "tasks.html", status, q=text, completions=filter_tokens.COMPLETIONS, **shown
    )


ROUTES = (show_tasks,)
