"""Dead letters: what failed for good, by its error, and what to do with it."""

from typing import Any
from urllib.parse import urlencode

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import (
    cursor_of,
    cursor_view,
    group_cursor_of,
    group_cursor_view,
    resolved_cursor_of,
    resolved_cursor_view,
)
from gnomon.api.tasks.dead_letter_schemas import DeadLetterQuery
from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.drawing.sparkline import sparkline
from gnomon.dashboard.pages.tasks import dead_letter_actions
from gnomon.dashboard.pages.tasks.bulk_confirm import confirm_url
from gnomon.dashboard.pages.tasks.dead_letter_actions import GROUPS, HERE
from gnomon.dashboard.pages.tasks.tasks import ROWS
from gnomon.dashboard.rendering import page
from gnomon.model.errors import InvalidTask
from gnomon.model.outcomes import fingerprint
from gnomon.model.tasks.task import Task
from gnomon.store.ports.work.bulk import BulkAction
from gnomon.store.ports.work.dead_letters import DeadGroup
from gnomon.store.ports.work.tasks import TaskFilter

RESOLVED = f"{HERE}/resolved"
LETTERS = 20  # on a page, each with its traceback
_ACTIONS = (BulkAction.RETRY, BulkAction.ARCHIVE, BulkAction.DISCARD)
_WITHOUT = ("status", "id", "error")  # conditions that dead letters do not have


class _LetterFilter:
    """The filter of a page, and what is wrong with it."""

    def __init__(self, request: Request) -> None:
        self.text = request.query_params.get("q", "").replace("\0", "")
        self.cursor = request.query_params.get("cursor") or None
        self.tokens: dict[str, str] = {}
        self.chosen = TaskFilter()
        self.wrong: str | None = None
        try:
            self.tokens = filter_tokens.parsed(self.text, without=_WITHOUT)
            self.chosen = filter_tokens.query_of(self.tokens, DeadLetterQuery).chosen()
        except InvalidTask as error:
            self.wrong = str(error)

    @property
    def status(self) -> int:
        return 200 if self.wrong is None else 422

    def next(self, path: str, cursor: str | None, **more: str) -> str | None:
        """The address of the next page."""
        if cursor is None:
            return None
        return f"{path}?" + urlencode({"q": self.text, "cursor": cursor} | more)

    def shown(self, path: str) -> dict[str, Any]:
        """What every page shows of it."""
        completions = [
            each for each in filter_tokens.COMPLETIONS if not each.startswith((*_WITHOUT, "finger"))
        ]
        return {
            "q": self.text,
            "completions": completions,
            "wrong": self.wrong,
            "chips": filter_tokens.chips(self.tokens, path),
            "first": self.cursor is None,
            "refresh": path + "?" + urlencode({"q": self.text, "cursor": self.cursor or ""}),
        }


@PageRoute("GET", HERE, role=Role.READ)
async def show_groups(request: Request) -> ASGIResponse:
    """Groups by error; a filter by more than the type leads to the list."""
    asked = _LetterFilter(request)
    if asked.wrong is None and set(asked.tokens) - {"type"}:
        return await _list(request, asked)
    values: dict[str, Any] = {"rows": [], "more": None, "capped": False, "ungrouped": None}
    if asked.wrong is None:
        cursor = group_cursor_of(asked.cursor)
        found = await context_of(request).store.dead_letters.groups(
            tenant_of(request), asked.chosen.task_type, None, cursor, ROWS
        )
        values["rows"] = [_shown_group(group) for group in found.groups]
        values["more"] = asked.next(HERE, group_cursor_view(found.next_cursor))
        values |= {"capped": found.capped, "ungrouped": found.ungrouped}
    return page(request, "dead_groups.html", asked.status, **asked.shown(HERE), **values)


@PageRoute("GET", f"{HERE}/all", role=Role.READ)
async def show_dead_letters(request: Request) -> ASGIResponse:
    return await _list(request, _LetterFilter(request))


async def _list(request: Request, asked: _LetterFilter) -> ASGIResponse:
    here = f"{HERE}/all"
    values: dict[str, Any] = {"letters": [], "more": None, "actions": []}
    if asked.wrong is None:
        store = context_of(request).store
        cursor = cursor_of(asked.cursor)
        found = await store.list_dead(tenant_of(request), asked.chosen, cursor, LETTERS)
        values["letters"] = await _letters(request, found.tasks)
        values["more"] = asked.next(here, cursor_view(found.next_cursor))
        if found.tasks:
            values["actions"] = _actions(asked.tokens)
    return page(request, "dead_letters.html", asked.status, **asked.shown(here), **values)


@PageRoute("GET", RESOLVED, role=Role.READ)
async def show_resolved(request: Request) -> ASGIResponse:
    asked = _LetterFilter(request)
    values: dict[str, Any] = {"tasks": [], "more": None}
    if asked.wrong is None:
        cursor = resolved_cursor_of(asked.cursor)
        found = await context_of(request).store.dead_letters.resolved(
            tenant_of(request), asked.chosen, cursor, ROWS
        )
        values["tasks"] = found.tasks
        values["more"] = asked.next(RESOLVED, resolved_cursor_view(found.next_cursor))
    return page(request, "dead_resolved.html", asked.status, **asked.shown(RESOLVED), **values)


@PageRoute("GET", f"{GROUPS}/{{fingerprint:str}}", role=Role.READ)
async def show_group(request: Request) -> ASGIResponse:
    store, tenant = context_of(request).store, tenant_of(request)
    only = fingerprint.read(request.path_params["fingerprint"])
    text = fingerprint.written(only)
    asked = request.query_params.get("cursor") or None
    groups = (await store.dead_letters.groups(tenant, only=only, limit=1)).groups
    chosen = TaskFilter(fingerprint=only)
    found = await store.list_dead(tenant, chosen, cursor_of(asked), LETTERS)
    after = cursor_view(found.next_cursor)
    here = f"{GROUPS}/{text}"
    tokens = {"type": groups[0].task_type} if groups else {}
    return page(
        request,
        "dead_group.html",
        fingerprint=text,
        row=_shown_group(groups[0]) if groups else None,
        count=await store.dead_letters.count(tenant, only),
        letters=await _letters(request, found.tasks),
        actions=_actions(tokens | {"fingerprint": text}),
        first=asked is None,
        refresh=here + (f"?{urlencode({'cursor': asked})}" if asked else ""),
        more=None if after is None else f"{here}?{urlencode({'cursor': after})}",
    )


async def _letters(request: Request, tasks: list[Task]) -> list[dict[str, Any]]:
    """Dead letters, each with how its last execution failed."""
    failures = await context_of(request).store.dead_letters.last_failures(
        tenant_of(request), [task.task_id for task in tasks]
    )
    return [{"task": task, "failure": failures.get(task.task_id)} for task in tasks]


def _actions(tokens: dict[str, str]) -> list[tuple[str, str]]:
    """What can be done with all that match, and where it is asked for."""
    return [(action.capitalize(), confirm_url(action, tokens)) for action in _ACTIONS]


def _shown_group(group: DeadGroup) -> dict[str, Any]:
    total, most = sum(group.hours), max(group.hours)
    label = f"Deaths in the last 24 hours: {total}, at most {most} in one"
    if group.count.capped:
        label += f", among the newest {group.count.count}"
    return {
        "group": group,
        "url": f"{GROUPS}/{fingerprint.written(group.fingerprint)}",
        "spark": sparkline(group.hours, label),
    }


ROUTES = (
    show_groups,
    show_dead_letters,
    show_resolved,
    show_group,
    *dead_letter_actions.ROUTES,
)
