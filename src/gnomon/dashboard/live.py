"""Live pages: a stream that says which topics have changed, and nothing of what.

The page asks for its live part itself (`?fragment=1`), under the rights that it has then.
"""

from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractContextManager

from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from gnomon.access.grant_errors import OperatorNeeded, TenantNeeded
from gnomon.access.principal import Role
from gnomon.api.auth.access import admit_again, session_in
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.connections import client_of
from gnomon.api.http.operation import PageRoute
from gnomon.loop import unless
from gnomon.model.errors import RoleMissing, StoreError, Unauthenticated
from gnomon.model.topics import Topic, WatchedTopics, topics_in
from gnomon.usecases.live.watch import Viewer

PATH = "/live"
KEEP_ALIVE_SECONDS = 15.0  # proxies and browsers give up what is silent for a minute
LONGEST_SECONDS = 600.0  # the page opens another one: it may be of another process
_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would hold events back
}
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
        return ASGIResponse(headers=dict(_HEADERS), is_head_response=True)
    opened = context_of(request).live.watching(_one(request), tenant_id, watched)
    return EventStream(request, opened)


def _one(request: Request) -> Hashable | None:
    """Whose stream it is: of a session, or of an address where a script has none. Without
    authentication everybody may come from one address, that of a proxy: of nobody."""
    if context_of(request).authenticator is None:
        return None
    return session_in(request) or client_of(request.scope)[0]


class EventStream(ASGIResponse):
    """Server-sent events for as long as the page is open, and the process runs."""

    _should_set_content_length = False

    def __init__(self, request: Request, opened: AbstractContextManager[Viewer]) -> None:
        super().__init__(headers=dict(_HEADERS))
        self._request = request
        self._opened = opened

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._opened as viewer:  # may refuse, before anything is sent
            await self.start_response(send)
            await unless(_closed(receive), self._send(viewer, send))

    async def _send(self, viewer: Viewer, send: Send) -> None:
        async for part in _events(self._request, viewer):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _closed(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _events(request: Request, viewer: Viewer) -> AsyncIterator[bytes]:
    live, clock = context_of(request).live, context_of(request).clock
    began = checked = clock.monotonic()
    shown: int | None = None
    yield b": open\n\n"  # so that the head is sent
    while not live.closed.is_set() and clock.monotonic() < began + LONGEST_SECONDS:
        await clock.wait(viewer.told, KEEP_ALIVE_SECONDS)
        if clock.monotonic() >= checked + KEEP_ALIVE_SECONDS:
            checked = clock.monotonic()
            if not await _is_still_admitted(request):
                yield _ENDED
                return
        changed = viewer.take()
        if viewer.open_events != shown:
            shown = viewer.open_events
            yield f"event: open-events\ndata: {shown}\n\n".encode()
        yield f"event: changed\ndata: {' '.join(changed)}\n\n".encode() if changed else b":\n\n"


async def _is_still_admitted(request: Request) -> bool:
    """Whether the session, and the key behind it, still allow to look."""
    try:
        await admit_again(request)
    except (Unauthenticated, RoleMissing, OperatorNeeded, TenantNeeded):
        return False
    except StoreError:
        pass  # nobody can tell now; what it says is worth nothing without the page's own request
    return True


ROUTES = (tell_changes, tell_installation_changes)
