"""Events: what somebody should take note of, and who has."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.events import event_id_of
from gnomon.api.context import Request, context_of, requester_of
from gnomon.api.http.answers.page_reads import EVENTS_PAGE, INSTALLATION_EVENTS_PAGE
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.reading import read_form
from gnomon.dashboard.pages.tasks.tasks import ROWS
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.event_words import INSTALLATION_KINDS, KINDS, shown
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.insight.events import EventFilter
from gnomon.usecases.admin import events

STATES = {"open": False, "acknowledged": True, "all": None}
_ID_DIGITS = 36


class EventPages(msgspec.Struct, frozen=True):
    """The pages of a tenant's events, or of those of the installation."""

    path: str
    title: str
    reads: Role
    notes: Role  # who takes note of them
    kinds: Mapping[str, str]  # that can be chosen from, and how they read

    def routes(self) -> tuple[HTTPRouteHandler, ...]:
        """Its list, and what can be done on it."""

        @PageRoute("GET", self.path, role=self.reads)
        async def show(request: Request) -> ASGIResponse:
            return await self._list(request)

        @PageRoute("POST", f"{self.path}/acknowledge", role=self.notes)
        async def acknowledge_shown(request: Request) -> ASGIResponse:
            form = await read_form(request, OVERHEAD_BYTES)
            ids = form.get("ids", "").split()
            if len(ids) > ROWS:
                raise InvalidTask(f"a page shows {ROWS} events at the most", "/ids")
            store, by = context_of(request).events, requester_of(request)
            await events.acknowledge_all(store, by, [_id(each) for each in ids], _note(form))
            return redirect(self._address(_asked(form) | {"done": "acknowledge_all"}))

        @PageRoute("POST", f"{self.path}/{{event_id:str}}/acknowledge", role=self.notes)
        async def acknowledge(request: Request) -> ASGIResponse:
            form = await read_form(request, OVERHEAD_BYTES)
            store, by = context_of(request).events, requester_of(request)
            await events.acknowledge(store, by, event_id_of(request), _note(form))
            return redirect(self._address(_asked(form) | {"done": "acknowledge"}))

        return show, acknowledge_shown, acknowledge

    async def _list(self, request: Request) -> ASGIResponse:
        asked, by = _asked(request.query_params), requester_of(request)
        kind, state = asked.get("kind"), asked.get("state", "open")
        if state not in STATES:
            raise InvalidTask(f"must be one of {', '.join(STATES)}", "/state")
        cursor = cursor_of(request.query_params.get("cursor") or None)
        chosen = EventFilter(kind=kind, acknowledged=STATES[state])
        found = await context_of(request).events.list(events.log_of(by), chosen, cursor, ROWS)
        after = cursor_view(found.next_cursor)
        lines = [shown(event) for event in found.events]
        return page(
            request,
            "events.html",
            path=self.path,
            title=self.title,
            may_note=context_of(request).authenticator is None or by.may(self.notes),
            lines=lines,
            unnoted=[line.event.id for line in lines if line.event.acknowledged_at is None],
            kinds=self.kinds,
            kind=kind,
            states=list(STATES),
            state=state,
            first=cursor is None,
            more=None if after is None else self._address(asked | {"cursor": after}),
        )

    def _address(self, asked: dict[str, str]) -> str:
        return f"{self.path}?{urlencode(asked)}" if asked else self.path


def _asked(given: Any) -> dict[str, str]:
    """Which events are shown, as it is in an address or in a form."""
    values = {name: given.get(name, "").replace("\0", "") for name in ("kind", "state")}
    return {name: value for name, value in values.items() if value}


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


ROUTES = (
    *EventPages(EVENTS_PAGE, "Events", Role.READ, Role.OPERATE, KINDS).routes(),
    *EventPages(
        INSTALLATION_EVENTS_PAGE,
        "Installation events",
        Role.OPERATOR,
        Role.OPERATOR,
        INSTALLATION_KINDS,
    ).routes(),
)
