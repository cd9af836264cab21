"""The list of tasks, by a filter that is in the address, with the columns that are chosen there."""

from typing import Any
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.answers.page_reads import is_fragment
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.tasks.schemas import TaskFilterQuery
from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.addresses.task_list import (
    COLUMNS,
    DEFAULT_COLUMNS,
    columns_of,
    columns_query,
    completions,
    tasks_url,
)
from gnomon.dashboard.pages.tasks.bulk_confirm import confirm_url
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import InvalidTask
from gnomon.store.ports.insight.saved_views import SavedView
from gnomon.store.ports.work.tasks import HIGHEST_ID, TaskFilter

ROWS = 50


class ShownView(msgspec.Struct, frozen=True):
    """A saved view with its address; None: it cannot be read here."""

    view: SavedView
    url: str | None


class _ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: str
    columns: tuple[str, ...]
    cursor: str | None
    newer: str | None

    @classmethod
    def of(cls, request: Request) -> "_ListQuery":
        given = request.query_params
        return cls(
            q=given.get("q", "").replace("\0", ""),
            columns=columns_of(given.getall("columns", [])),
            cursor=given.get("cursor") or None,
            newer=given.get("newer") or None,
        )

    def tokens(self) -> dict[str, str]:
        """Raises InvalidTask."""
        return filter_tokens.parsed(self.q, without=filter_tokens.OF_BULK)


@PageRoute("GET", "/tasks", role=Role.READ)
async def show_tasks(request: Request) -> ASGIResponse:
    asked = _ListQuery.of(request)
    try:
        tokens = asked.tokens()
        chosen = filter_tokens.query_of(tokens, TaskFilterQuery).chosen()
        cursor, newer = cursor_of(asked.cursor), cursor_of(asked.newer)
    except InvalidTask as error:
        return await task_page(request, 422, asked.q, asked.columns, wrong=str(error))
    text = filter_tokens.written(tokens)
    if newer is not None:
        place = await _newer(request, chosen, newer)
        return redirect(tasks_url(text, asked.columns, cursor=place))
    found = await context_of(request).store.list(tenant_of(request), chosen, cursor, ROWS)
    older = cursor_view(found.next_cursor)
    first = found.tasks[0].task_id if found.tasks else cursor
    back = None if cursor is None or first is None else cursor_view(first)
    return await task_page(
        request,
        200,
        text,
        asked.columns,
        tasks=found.tasks,
        chips=filter_tokens.chips(tokens, "/tasks", columns_query(asked.columns)),
        here=tasks_url(text, asked.columns, cursor=asked.cursor),
        all_of_them=confirm_url(None, tokens),
        older=None if older is None else tasks_url(text, asked.columns, cursor=older),
        newer=None if back is None else tasks_url(text, asked.columns, newer=back),
        newest=None if cursor is None else tasks_url(text, asked.columns),
    )


async def _newer(request: Request, chosen: TaskFilter, cursor: UUID) -> str | None:
    """Where the page begins that comes before this task; None: it is the first."""
    store, tenant = context_of(request).store, tenant_of(request)
    found = await store.list_newer(tenant, chosen, cursor, ROWS)
    if found.newer_cursor is None:
        return None
    begins = found.tasks[0].task_id if found.tasks else found.newer_cursor
    return cursor_view(begins if begins == HIGHEST_ID else UUID(int=begins.int + 1))


async def task_page(
    request: Request, status: int, q: str, columns: tuple[str, ...], **values: Any
) -> ASGIResponse:
    """The page of tasks; without tasks where there is something wrong with what was asked for."""
    context, tenant = context_of(request), tenant_of(request)
    offered: list[str] = []
    views: list[SavedView] = []
    if not is_fragment(request):  # which shows neither
        offered = completions(await context.store.labels(tenant))
        views = await context.saved_views.list(tenant)
    shown = {
        "tasks": [],
        "chips": [],
        "here": tasks_url(q, columns),
        "all_of_them": None,
        "older": None,
        "newer": None,
        "newest": None,
        "wrong": None,
        "wrong_view": None,
        "typed": "",
        **values,
    }
    return page(
        request,
        "tasks.html",
        status,
        q=q,
        completions=offered,
        columns=[COLUMNS[name] for name in columns],
        all_columns=list(COLUMNS.values()),
        columns_text="" if columns == DEFAULT_COLUMNS else ",".join(columns),
        views=[_shown(view) for view in views],
        view_here=tasks_url(_ordered(q), columns),
        **shown,
    )


def _ordered(q: str) -> str:
    try:
        return filter_tokens.written(filter_tokens.ordered(filter_tokens.parsed(q)))
    except InvalidTask:
        return q


def _shown(view: SavedView) -> ShownView:
    try:
        tokens = filter_tokens.of_filter(view.filter)
    except InvalidTask:  # another version has saved it
        return ShownView(view, None)
    return ShownView(view, tasks_url(filter_tokens.written(tokens), columns_of(view.columns)))


ROUTES = (show_tasks,)
