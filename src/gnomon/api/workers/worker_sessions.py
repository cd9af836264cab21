"""`/worker-sessions`: the worker protocol. See docs/reference/worker-protocol.md."""

import asyncio
from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, header_of, id_of, principal_of, tenant_of
from gnomon.api.http.answers.request_meter import not_measured
from gnomon.api.http.bounds.bodies import BODY
from gnomon.api.http.bounds.request_limits import CONNECTION
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.model.session_errors import WorkerSessionNotFound
from gnomon.node.remote.conversation import PendingPoll
from gnomon.node.remote.desk import SessionCaller
from gnomon.node.remote.wording import check_poll
from gnomon.pipe.http.messages import (
    MOST_BODY_BYTES,
    BeatAnswer,
    Poll,
    PollAnswer,
    SessionOpened,
    SessionOpening,
)
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.worker_sessions import ListedSession
from gnomon.usecases.checks.request_fields import Moment, Strict
from gnomon.usecases.workers.openings import check_opening
from gnomon.usecases.workers.reported_spawns import within_key

_SECRET = "gnomon-session-secret"  # noqa: S105 - the name of a header


class SessionQuery(Strict):
    """How many to list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100


class SessionView(msgspec.Struct, kw_only=True):
    """A session of a remote worker."""

    session_id: UUID
    name: str
    alive: bool  # else its lease has run out, and it is about to be declared dead
    handlers: list[str]
    queues: list[str]  # none: all
    slots: int
    running: int
    started_at: Moment
    lease_seconds: float
    gateway: str | None
    labels: dict[str, str]
    client: str | None


class SessionList(msgspec.Struct):
    """The oldest first."""

    worker_sessions: list[SessionView]


@Operation(
    "POST",
    "/",
    name="open_worker_session",
    role=Role.WORK,
    summary="Open a session for a remote worker",
    body=SessionOpening,
    body_required=True,
    answers={201: SessionOpened},
    errors=(409,),
)
async def open_worker_session(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    opening = decoded(await read_body(request, OVERHEAD_BYTES), SessionOpening)
    check_opening(opening, by)
    desk = await context.gateway.desk()
    return respond(answer(201, await desk.open(opening, _caller(request))))


@Operation(
    "GET",
    "/",
    name="list_worker_sessions",
    role=Role.READ,
    summary="List the living worker sessions of the tenant, the oldest first",
    query=SessionQuery,
    answers={200: SessionList},
)
async def list_worker_sessions(request: Request) -> ASGIResponse:
    asked = queried(request, SessionQuery)
    found = await context_of(request).worker_sessions.list_living(tenant_of(request), asked.limit)
    return respond(answer(200, SessionList([*map(_view, found)])))


@Operation(
    "POST",
    "/{session_id:str}/poll",
    name="poll_worker_session",
    secret=_SECRET,
    role=Role.WORK,
    summary="Report what has ended, and get what is to run; waits until there is something to say",
    body=Poll,
    body_required=True,
    answers={200: PollAnswer},
    errors=(404, 410),
)
async def poll_worker_session(request: Request) -> ASGIResponse:
    context, session_id = context_of(request), _session_id(request)
    poll = decoded(await read_body(request, MOST_BODY_BYTES), Poll)
    check_poll(poll)
    poll = within_key(poll, principal_of(request))
    body = request.scope.get(BODY)
    if body is not None:
        context.bodies.give_back(body)  # type: ignore[arg-type] # it is read, and may wait long
    not_measured(request.scope)
    desk = await context.gateway.desk()
    heard = await desk.poll(session_id, _caller(request), poll)
    if isinstance(heard, PendingPoll):
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_hang_up_when_closed(request, heard))
            heard = await heard.wait()
            watching.cancel()
    return respond(answer(200, heard))


@Operation(
    "POST",
    "/{session_id:str}/beat",
    name="beat_worker_session",
    secret=_SECRET,
    role=Role.WORK,
    summary="Renew the lease of a session",
    answers={200: BeatAnswer},
    errors=(404, 410),
)
async def beat_worker_session(request: Request) -> ASGIResponse:
    desk = await context_of(request).gateway.desk()
    return respond(answer(200, await desk.beat(_session_id(request), _caller(request))))


@Operation(
    "POST",
    "/{session_id:str}/drain",
    name="drain_worker_session",
    role=Role.OPERATE,
    summary="Have the worker of a session take nothing more, end what it runs, and leave",
    answers={204: None},
    errors=(404,),
)
async def drain_worker_session(request: Request) -> ASGIResponse:
    session_id = _session_id(request)
    sessions = context_of(request).worker_sessions
    if not await sessions.drain(session_id, tenant_of(request)):
        raise WorkerSessionNotFound(session_id)
    return respond(answer(204))


@Operation(
    "DELETE",
    "/{session_id:str}",
    name="close_worker_session",
    secret=_SECRET,
    role=Role.WORK,
    summary="Leave: what the session still has runs elsewhere",
    answers={204: None},
    errors=(404,),
)
async def close_worker_session(request: Request) -> ASGIResponse:
    desk = await context_of(request).gateway.desk()
    await desk.leave(_session_id(request), _caller(request))
    return respond(answer(204))


def _view(session: ListedSession) -> SessionView:
    return SessionView(
        session_id=session.incarnation,
        name=session.name,
        alive=session.lease_seconds > 0,
        handlers=sorted(session.pool.handlers or ()),
        queues=sorted(session.pool.queues),
        slots=session.slots,
        running=session.running,
        started_at=session.started_at,
        lease_seconds=session.lease_seconds,
        gateway=session.gateway,
        labels=session.labels,
        client=session.client,
    )


def _caller(request: Request) -> SessionCaller:
    by = principal_of(request)
    secret = header_of(request, _SECRET.encode())
    return SessionCaller(by.tenant_id, by.key_id, secret, carried=CONNECTION in request.scope)


def _session_id(request: Request) -> UUID:
    """Raises WorkerSessionNotFound for text that is not an id."""
    return id_of(request, "session_id", WorkerSessionNotFound)


async def _hang_up_when_closed(request: Request, polling: PendingPoll) -> None:
    """Ends a poll whose client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    polling.hang_up()


router = Router(
    "/api/v1/worker-sessions",
    route_handlers=[
        open_worker_session,
        list_worker_sessions,
        poll_worker_session,
        beat_worker_session,
        drain_worker_session,
        close_worker_session,
    ],
)
