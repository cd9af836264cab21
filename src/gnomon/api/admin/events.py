"""`/events`: events of a tenant, such as runs that started too late."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.cursors import cursor_of, cursor_view
from gnomon.api.http.idempotency import answer, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import queried
from gnomon.store.ports.events import EventFilter, EventRecord
from gnomon.usecases.checks.request_fields import DEFAULT_LIMIT, Json, Moment, Strict


class EventQuery(Strict):
    """The parameters of a list of events."""

    kind: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    cron_job_id: UUID | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = DEFAULT_LIMIT
    cursor: str | None = None


class EventView(msgspec.Struct, kw_only=True):
    """An event; the members of `detail` depend on its kind."""

    event_id: UUID
    kind: str
    at: Moment
    cron_job_id: UUID | None
    task_id: UUID | None
    detail: Json


class EventPage(msgspec.Struct):
    """Newest first."""

    events: list[EventView]
    next_cursor: str | None


@Operation(
    "GET",
    "/api/v1/events",
    name="list_events",
    role=Role.READ,
    summary="List events, newest first",
    query=EventQuery,
    answers={200: EventPage},
)
async def list_events(request: Request) -> ASGIResponse:
    asked = queried(request, EventQuery)
    page = await context_of(request).events.list(
        tenant_of(request),
        EventFilter(kind=asked.kind, cron_job_id=asked.cron_job_id),
        cursor_of(asked.cursor),
        asked.limit,
    )
    events = [_view(event) for event in page.events]
    return respond(answer(200, EventPage(events, cursor_view(page.next_cursor))))


def _view(event: EventRecord) -> EventView:
    return EventView(
        event_id=event.id,
        kind=event.kind,
        at=event.at,
        cron_job_id=event.cron_job_id,
        task_id=event.task_id,
        detail=msgspec.Raw(event.detail),
    )
