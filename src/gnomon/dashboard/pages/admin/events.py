"""Events: what somebody should take note of, and who has."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.events import event_id_of
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.cursors import cursor_of, cursor_view
from gnomon.api.http.operation import PageRoute
from gnomon.api.http.reading import read_form
from gnomon.dashboard.pages.tasks.tasks import ROWS
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.event_words import KINDS, shown
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.events import EventFilter
from gnomon.usecases.admin import events

HERE = "/events"
STATES = {"open": False, "acknowledged": True, "all": None}
_ID_DIGITS = 36


@PageRoute("GET", HERE, role=Role.READ)
async def show_events(request: Request) -> ASGIResponse:
    asked = _asked(request.query_params)
    kind, state = asked.get("kind"), asked.get("state", "open")
    if state not in STATES:
        raise InvalidTask(f"must be one of {', '.join(STATES)}", "/state")
    cursor = cursor_of(request.query_params.get("cursor") or None)
    chosen = EventFilter(kind=kind, acknowledged=STATES[state])
    found = await context_of(request).events.list(tenant_of(request), chosen, cursor, ROWS)
    after = cursor_view(found.next_cursor)
    lines = [shown(event) for event in found.events]
    return page(
        request,
        "events.html",
        lines=lines,
        unnoted=[line.event.id for line in lines if line.event.acknowledged_at is None],
        kinds=KINDS,
        kind=kind,
        states=list(STATES),
        state=state,
        back=_address(asked),
        first=cursor is None,
        more=None if after is None else _address(asked | {"cursor": after}),
    )


@PageRoute("POST", f"{HERE}/acknowledge", role=Role.OPERATE)
async def acknowledge_shown(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    ids = form.get("ids", "").split()
    if len(ids) > ROWS:
        raise InvalidTask(f"a page shows {ROWS} events at the most", "/ids")
    store, by = context_of(request).events, principal_of(request)
    await events.acknowledge_all(store, by, [_id(each) for each in ids], _note(form))
    return redirect(_address(_asked(form) | {"done": "acknowledge_all"}))


@PageRoute("POST", f"{HERE}/{{event_id:str}}/acknowledge", role=Role.OPERATE)
async def acknowledge(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    store, by = context_of(request).events, principal_of(request)
    await events.acknowledge(store, by, event_id_of(request), _note(form))
    return redirect(_address(_asked(form) | {"done": "acknowledge"}))


def _asked(given: Any) -> dict[str, str]:
    """Which events are shown, as it is in an address or in a form."""
    values = {name: given.get(name, "").replace("\0", "") for name in ("kind", "state")}
    return {name: value for name, value in values.items() if value}


def _address(asked: dict[str, str]) -> str:
    return f"{HERE}?{urlencode(asked)}" if asked else HERE


def _note(form: dict[str, str]) -> str | None:
    note = form.get("note", "")
    if len(note) > events.MOST_CHARACTERS:
        raise InvalidTask(f"is longer than {events.MOST_CHARACTERS} characters", "/note")
    return note


def _id(text: str) -> UUID:
    try:
        if len(text) == _ID_DIGITS:
            return UUID(text)
    except ValueError:
        pass
    raise InvalidTask("must be ids of events", "/ids")


ROUTES = (show_events, acknowledge_shown, acknowledge)
