"""The requests under way: how many may be, which connections they use, and what they give back."""

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from gnomon.api.bodies import BODY, Bodies
from gnomon.api.connections import Client, client_of
from gnomon.api.problems import MEDIA_TYPE, RETRY_SECONDS, busy

HEALTH = ("/healthz", "/readyz")


def requests_at_once(connections: int) -> int:
    """Half of the connections may have a request under way, so that there are always idle ones that
    can be closed for new ones."""
    return max(connections // 2, 1)


class UnderWay:
    """The application, as the HTTP server calls it.

    At most so many requests are under way at once. One more takes the place of a body that arrives
    slowly; where there is none, it is told so at once. Health is always told.
    """

    def __init__(self, app: ASGIApp, clients: set[Client], bodies: Bodies, most: int) -> None:
        self._app = app
        self._clients = clients  # those with a request under way
        self._bodies = bodies
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._has_room() and scope["path"] not in HEALTH:
            await _refuse(send)
            return
        client = client_of(scope)
        self._clients.add(client)
        try:
            await self._app(scope, receive, send)
        finally:
            self._clients.discard(client)
            body = scope.get(BODY)
            if body is not None:
                self._bodies.give_back(body)  # type: ignore[arg-type]

    def _has_room(self) -> bool:
        # Whoever is ended is gone in a moment: what it takes to answer that.
        return len(self._clients) < self._most or self._bodies.end_slow(1) > 0


async def _refuse(send: Send) -> None:
    body = msgspec.json.encode(busy("too many requests are under way; try again"))
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", RETRY_SECONDS.encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
