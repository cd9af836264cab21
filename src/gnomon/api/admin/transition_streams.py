"""`/transitions/stream`: transitions of tasks whose type logs them, as they happen, and from where
a reader stopped."""

from functools import partial
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.cloud_events import source_of
from gnomon.api.admin.event_streams import LAST, requester
from gnomon.api.admin.events import MOST_NUMBER
from gnomon.api.context import Request, context_of, header_of, tenant_of
from gnomon.api.http.answers.event_stream import MEDIA_TYPE, EventStream, only_head
from gnomon.api.http.answers.following import followed
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import TransitionView
from gnomon.api.tasks.views import transition_view
from gnomon.model.errors import InvalidTask
from gnomon.model.insight.transition import StreamedTransition, TransitionPlace
from gnomon.usecases.checks.request_fields import Moment, Strict, TaskType

_DIGITS = 19


class TransitionStreamQuery(Strict):
    """The parameters of a stream of transitions."""

    task_type: TaskType | None = None
    task_id: UUID | None = None
    after: (
        Annotated[
            str,
            msgspec.Meta(
                pattern=r"^[0-9]{1,19}(\.[0-9]{1,19})?$",
                description="The id after which to begin, 0 for all that are kept; the header "
                "`Last-Event-ID` goes before it. Without both: now",
            ),
        ]
        | None
    ) = None

    def shown(self, each: StreamedTransition) -> bytes | None:
        """What is sent of a transition; None: it was not asked for."""
        if self.task_type not in (None, each.task_type):
            return None
        if self.task_id not in (None, each.task_id):
            return None
        document = msgspec.json.encode(_event(each))
        return f"id: {each.position}\ndata: ".encode() + document + b"\n\n"


class StreamedTransitionView(TransitionView, kw_only=True):
    """One change of a task's state, with its task."""

    task_id: UUID
    task_type: str


class TransitionEvent(msgspec.Struct, kw_only=True):
    """A transition as a CloudEvent."""

    specversion: Literal["1.0"] = "1.0"
    id: str  # the task and the number
    type: Literal["gnomon.task.transition"] = "gnomon.task.transition"
    source: str  # `/tenants/<id>`
    subject: str  # the task
    time: Moment
    datacontenttype: Literal["application/json"] = "application/json"
    data: StreamedTransitionView


@Operation(
    "GET",
    "/transitions/stream",
    name="stream_transitions",
    role=Role.READ,
    summary="Follow transitions of tasks whose type logs them, each a CloudEvent; `Last-Event-ID` "
    "continues",
    query=TransitionStreamQuery,
    answers={200: TransitionEvent},
    errors=(410,),
    media_type=MEDIA_TYPE,
)
async def stream_transitions(request: Request) -> ASGIResponse:
    asked, feed = queried(request, TransitionStreamQuery), context_of(request).transitions
    last = header_of(request, LAST)
    begin = await feed.begin(_place(asked.after if last is None else last))
    if request.method == "HEAD":
        return only_head()
    opened = feed.following(requester(request), tenant_of(request), begin)
    return EventStream(opened, partial(followed, request, feed.closed, asked.shown))


def _place(text: str | None) -> TransitionPlace | None:
    """The place that an id names. Raises InvalidTask."""
    if text is None:
        return None
    numbers = text.split(".")
    if len(numbers) > 2 or not all(_is_number(each) for each in numbers):
        raise InvalidTask("Last-Event-ID must be the id of an event of this stream, like 7301.42")
    return TransitionPlace(*map(int, numbers))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= MOST_NUMBER


def _event(each: StreamedTransition) -> TransitionEvent:
    view = transition_view(each.transition)
    return TransitionEvent(
        id=f"{each.task_id}.{view.number}",
        source=source_of(each.tenant_id),
        subject=str(each.task_id),
        time=view.at,
        data=StreamedTransitionView(
            **msgspec.structs.asdict(view), task_id=each.task_id, task_type=each.task_type
        ),
    )


router = Router("/api/v1", route_handlers=[stream_transitions])
