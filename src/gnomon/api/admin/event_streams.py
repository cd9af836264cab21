"""`/events/stream`: events as they happen, and from where a reader stopped."""

from collections.abc import Hashable
from functools import partial
from typing import Annotated

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.cloud_events import CloudEvent, cloud_event
from gnomon.api.admin.events import MOST_NUMBER
from gnomon.api.context import Request, context_of, header_of, tenant_of
from gnomon.api.http.answers.event_stream import MEDIA_TYPE, EventStream, only_head
from gnomon.api.http.answers.following import followed
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.reading import queried
from gnomon.model.errors import InvalidTask
from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.model.insight.severity import Severity
from gnomon.store.ports.insight.events import EventFilter, EventRecord
from gnomon.usecases.checks.request_fields import Strict, TaskType

_DIGITS = 19
LAST = b"last-event-id"


class StreamQuery(Strict):
    """The parameters of a stream of events."""

    kind: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    severity: Severity | None = None
    task_type: TaskType | None = None
    after: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0,
                le=MOST_NUMBER,
                description="The number after which to begin; the header `Last-Event-ID` goes "
                "before it. Without both: now",
            ),
        ]
        | None
    ) = None


@Operation(
    "GET",
    "/events/stream",
    name="stream_events",
    role=Role.READ,
    summary="Follow events as server-sent events, each a CloudEvent; `Last-Event-ID` continues",
    query=StreamQuery,
    answers={200: CloudEvent},
    errors=(410,),
    media_type=MEDIA_TYPE,
)
async def stream_events(request: Request) -> ASGIResponse:
    return await _stream(request, tenant_of(request))


@Operation(
    "GET",
    "/installation/events/stream",
    name="stream_installation_events",
    role=Role.OPERATOR,
    summary="Follow the events of the installation, as those of a tenant",
    query=StreamQuery,
    answers={200: CloudEvent},
    errors=(410,),
    media_type=MEDIA_TYPE,
)
async def stream_installation_events(request: Request) -> ASGIResponse:
    return await _stream(request, INSTALLATION)


async def _stream(request: Request, tenant_id: str) -> ASGIResponse:
    asked, feed = queried(request, StreamQuery), context_of(request).feed
    last = header_of(request, LAST)
    begin = await feed.begin(asked.after if last is None else _number(last), tenant_id)
    if request.method == "HEAD":
        return only_head()
    chosen = EventFilter(
        kind=asked.kind,
        severities=None if asked.severity is None else frozenset([asked.severity]),
        task_type=asked.task_type,
    )
    opened = feed.following(requester(request), tenant_id, begin)
    return EventStream(opened, partial(followed, request, feed.closed, partial(_shown, chosen)))


def _number(text: str) -> int:
    """The number in the header. Raises InvalidTask."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= MOST_NUMBER:
        return int(text)
    raise InvalidTask("Last-Event-ID must be the id of an event of this stream, a number")


def requester(request: Request) -> Hashable | None:
    """Whose stream it is: that of a key."""
    return header_of(request, b"authorization")


def _shown(chosen: EventFilter, event: EventRecord) -> bytes | None:
    if not chosen.matches(event):
        return None
    return b"id: %d\ndata: %b\n\n" % (event.number or 0, cloud_event(event))


router = Router("/api/v1", route_handlers=[stream_events, stream_installation_events])
