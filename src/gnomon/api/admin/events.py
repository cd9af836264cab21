"""`/events`: events of a tenant, such as runs that started too late; and those of the installation,
for its operators, at `/installation/events`."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, requester_of
from gnomon.api.http.document.operation import Operation, for_operators
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.idempotency import answer, respond, shown
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.model.errors import EventNotFound, InvalidTask
from gnomon.model.insight.severity import Severity
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.insight.events import EventFilter, EventRecord
from gnomon.usecases.admin import events
from gnomon.usecases.checks.request_fields import DEFAULT_LIMIT, Json, Moment, Strict, TaskType

MOST_NUMBER = 2**63 - 1
After = Annotated[
    int,
    msgspec.Meta(
        ge=0,
        le=MOST_NUMBER,
        description="A number: the events after it, in the order in which they became known; "
        "continue with `reached`. Without it newest first; continue with `next_cursor`",
    ),
]
Note = Annotated[str, msgspec.Meta(max_length=events.MOST_CHARACTERS)] | None


class InstallationEventQuery(Strict):
    """The parameters of a list of events of the installation."""

    kind: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    severity: Severity | None = None
    acknowledged: Annotated[
        bool | None, msgspec.Meta(description="Whether somebody has taken note; without it, all")
    ] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = DEFAULT_LIMIT
    cursor: str | None = None
    after: After | None = None

    def filter(self) -> EventFilter:
        """The events that are asked for."""
        return EventFilter(
            kind=self.kind,
            severities=None if self.severity is None else frozenset([self.severity]),
            acknowledged=self.acknowledged,
        )


class EventQuery(InstallationEventQuery):
    """The parameters of a list of a tenant's events."""

    task_type: TaskType | None = None
    cron_job_id: UUID | None = None

    def filter(self) -> EventFilter:
        """The events that are asked for."""
        return msgspec.structs.replace(
            super().filter(), task_type=self.task_type, cron_job_id=self.cron_job_id
        )


class EventView(msgspec.Struct, kw_only=True):
    """An event; the members of `detail` depend on its kind."""

    event_id: UUID
    number: Annotated[
        int | None,
        msgspec.Meta(description="Its place in the order; an event that has grown gets another"),
    ]
    kind: str
    fingerprint: str
    severity: Severity
    at: Moment
    cron_job_id: UUID | None
    task_id: UUID | None
    detail: Json
    acknowledged_at: Moment | None
    acknowledged_by: str | None
    note: str | None


class EventPage(msgspec.Struct):
    """Newest first; or, after a number, in their order."""

    events: list[EventView]
    next_cursor: str | None
    reached: int | None = None


class EventReceipt(msgspec.Struct):
    """The answer to callers who may not read."""

    event_id: UUID


class AcknowledgeEvent(Strict):
    """What to say about an event."""

    note: Note = None


class AcknowledgeEvents(Strict):
    """The events to take note of, and what to say about them."""

    event_ids: Annotated[list[UUID], msgspec.Meta(max_length=events.MOST_AT_ONCE)]
    note: Note = None


class AcknowledgedEvents(msgspec.Struct):
    """Those of the events that there are; somebody else may have been first."""

    event_ids: list[UUID]


@Operation(
    "GET",
    "/",
    name="list_events",
    role=Role.READ,
    summary="List events, newest first or in their order",
    query=EventQuery,
    answers={200: EventPage},
    errors=(410,),
)
async def list_events(request: Request) -> ASGIResponse:
    return await _listed(request, queried(request, EventQuery))


@Operation(
    "GET",
    "/",
    name="list_installation_events",
    role=Role.OPERATOR,
    summary="List events of the installation, as those of a tenant",
    query=InstallationEventQuery,
    answers={200: EventPage},
    errors=(410,),
)
async def list_installation_events(request: Request) -> ASGIResponse:
    return await _listed(request, queried(request, InstallationEventQuery))


async def _listed(request: Request, asked: InstallationEventQuery) -> ASGIResponse:
    context, log, chosen = context_of(request), events.log_of(requester_of(request)), asked.filter()
    if asked.after is not None:
        if asked.cursor is not None:
            raise InvalidTask("cannot be combined with after", "/cursor")
        read = await context.event_log.read(asked.after, asked.limit, log)
        told = [_view(event) for event in read.events if chosen.matches(event)]
        return respond(answer(200, EventPage(told, None, read.reached)))
    page = await context.events.list(log, chosen, cursor_of(asked.cursor), asked.limit)
    found = [_view(event) for event in page.events]
    return respond(answer(200, EventPage(found, cursor_view(page.next_cursor))))


@Operation(
    "POST",
    "/{event_id:str}/acknowledge",
    name="acknowledge_event",
    role=Role.OPERATE,
    summary="Note that somebody has taken note of an event; who is first is kept",
    body=AcknowledgeEvent,
    answers={200: EventView},
    receipt=EventReceipt,
    errors=(404,),
)
async def acknowledge_event(request: Request) -> ASGIResponse:
    asked = decoded(await read_body(request, OVERHEAD_BYTES), AcknowledgeEvent)
    store, by = context_of(request).events, requester_of(request)
    found = await events.acknowledge(store, by, event_id_of(request), asked.note)
    return respond(shown(request, answer(200, _view(found))))


@Operation(
    "POST",
    "/acknowledge",
    name="acknowledge_events",
    role=Role.OPERATE,
    summary="Note that somebody has taken note of these events",
    body=AcknowledgeEvents,
    body_required=True,
    answers={200: AcknowledgedEvents},
)
async def acknowledge_events(request: Request) -> ASGIResponse:
    asked = decoded(await read_body(request, OVERHEAD_BYTES), AcknowledgeEvents)
    store, by = context_of(request).events, requester_of(request)
    found = await events.acknowledge_all(store, by, asked.event_ids, asked.note)
    return respond(answer(200, AcknowledgedEvents([event.id for event in found])))


def event_id_of(request: Request) -> UUID:
    """The event id in the path. Raises EventNotFound for text that is not an id."""
    text: str = request.path_params["event_id"]
    try:
        return UUID(text)
    except ValueError:
        raise EventNotFound(text) from None


def _view(event: EventRecord) -> EventView:
    return EventView(
        event_id=event.id,
        number=event.number,
        kind=event.kind,
        fingerprint=event.fingerprint,
        severity=event.severity,
        at=event.at,
        cron_job_id=event.cron_job_id,
        task_id=event.task_id,
        detail=msgspec.Raw(event.detail),
        acknowledged_at=event.acknowledged_at,
        acknowledged_by=event.acknowledged_by,
        note=event.note,
    )


router = Router(
    "/api/v1/events", route_handlers=[list_events, acknowledge_event, acknowledge_events]
)
installation_router = Router(
    "/api/v1/installation/events",
    route_handlers=[
        list_installation_events,
        for_operators(acknowledge_event),
        for_operators(acknowledge_events),
    ],
)
