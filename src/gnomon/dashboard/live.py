"""Live pages: a stream that says which topics have changed, and nothing of what.

The page asks for its live part itself (`?fragment=1`), under the rights that it has then.
"""

from collections.abc import AsyncIterator, Hashable
from functools import partial

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.auth.access import session_in
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.answers.event_stream import (
    KEEP_ALIVE_SECONDS,
    LONGEST_SECONDS,
    EventStream,
    is_still_admitted,
    only_head,
)
from gnomon.api.http.bounds.connections import client_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.model.insight.topics import Topic, WatchedTopics, topics_in
from gnomon.usecases.live.watch import Viewer

PATH = "/live"
_ENDED = b"event: ended\ndata: sign-in\n\n"


@PageRoute("GET", PATH, role=Role.READ, streams=True)
async def tell_changes(request: Request) -> ASGIResponse:
    watched = topics_in(request.query_params.get("topics", ""))
    if context_of(request).authenticator is not None:
        watched = WatchedTopics(watched.topics - {Topic.NODES}, watched.tasks)
    return _stream(request, tenant_of(request), watched)


@PageRoute("GET", f"{PATH}/installation", role=Role.OPERATOR, streams=True)
async def tell_installation_changes(request: Request) -> ASGIResponse:
    return _stream(request, None, topics_in(request.query_params.get("topics", "")))


def _stream(request: Request, tenant_id: str | None, watched: WatchedTopics) -> ASGIResponse:
    if request.method == "HEAD":
        return only_head()
    opened = context_of(request).live.watching(_one(request), tenant_id, watched)
    return EventStream(opened, partial(_events, request))


def _one(request: Request) -> Hashable | None:
    """Whose stream it is: of a session, or of an address where a script has none. Without
    authentication everybody may come from one address, that of a proxy: of nobody."""
    if context_of(request).authenticator is None:
        return None
    return session_in(request) or client_of(request.scope)[0]


async def _events(request: Request, viewer: Viewer) -> AsyncIterator[bytes]:
    live, clock = context_of(request).live, context_of(request).clock
    began = checked = clock.monotonic()
    shown: int | None = None
    yield b": open\n\n"  # so that the head is sent
    while not live.closed.is_set() and clock.monotonic() < began + LONGEST_SECONDS:
        await clock.wait(viewer.told, KEEP_ALIVE_SECONDS)
        if clock.monotonic() >= checked + KEEP_ALIVE_SECONDS:
            checked = clock.monotonic()
            if not await is_still_admitted(request):
                yield _ENDED
                return
        changed = viewer.take()
        if viewer.open_events != shown:
            shown = viewer.open_events
            of = "installation-events" if viewer.tenant_id is None else "events"
            yield f"event: open-{of}\ndata: {shown}\n\n".encode()
        yield f"event: changed\ndata: {' '.join(changed)}\n\n".encode() if changed else b":\n\n"


ROUTES = (tell_changes, tell_installation_changes)
