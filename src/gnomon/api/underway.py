"""The requests under way: how many may be, which connections they use, and what they give back."""

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from gnomon.api.bodies import BODY
from gnomon.api.connections import client_of
from gnomon.api.context import Context
from gnomon.api.problems import MEDIA_TYPE, RETRY_SECONDS, busy

HEALTH = ("/healthz", "/readyz")


class UnderWay:
    """The application, as the HTTP server calls it.

    Half of the connections may have a request under way, so that there are always idle ones that
    can be closed for new ones. Whoever asks for more is told so at once; health is always told.
    """

    def __init__(self, app: ASGIApp, context: Context, connections: int) -> None:
        self._app = app
        self._clients = context.under_way
        self._bodies = context.bodies
        self._most = max(connections // 2, 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self._clients) >= self._most and scope["path"] not in HEALTH:
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
