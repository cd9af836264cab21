"""Limits the requests in progress, and frees what each of them held at its end."""

import msgspec
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from gnomon.api.http.answers.problems import MEDIA_TYPE, RETRY_SECONDS, Problem, busy, problem
from gnomon.api.http.bounds.bodies import BODY, Bodies
from gnomon.api.http.bounds.connections import Client, Connections, client_of
from gnomon.api.http.bounds.dropping import Dropping
from gnomon.api.http.bounds.request_limits import DETAILS, Excess, RequestLimits

Header = tuple[bytes, bytes]

_CLOSE: Header = (b"connection", b"close")


def requests_at_once(connections: int) -> int:
    """Half of the connections may have a request in progress, so that there are always idle ones
    that can be closed for new ones."""
    return max(connections // 2, 1)


class RequestsUnderWay:
    """The application as the HTTP server calls it.

    Refuses requests of an address or a key beyond their limits. Of the others at most `most` are in
    progress at once; one more takes the place of a body that arrives slowly, or is refused at once.
    Health checks are always answered, if not always at once.
    """

    def __init__(
        self,
        app: ASGIApp,
        clients: set[Client],  # with a request in progress
        bodies: Bodies,
        most: int,
        limits: RequestLimits,
        dropping: Dropping,
        connections: Connections | None = None,
    ) -> None:
        self._app = app
        self._clients = clients
        self._bodies = bodies
        self._most = most
        self._limits = limits
        self._dropping = dropping
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of(scope)
        if self._connections is not None and self._connections.is_crowded(client[0]):
            send = _closing(send)
        send = self._dropping.before_answer(scope, receive, send)
        if scope["path"] in self._limits.unlimited_paths:
            await self._limits.slow_watcher(scope)
            await self._answer(client, scope, receive, send)
        elif (excess := self._limits.exceeded(scope) or self._limits.begin(scope)) is not None:
            await self._refuse(excess, send)
        else:
            try:
                if self._has_room():
                    await self._answer(client, scope, receive, send)
                else:
                    await self._refuse_busy(send)
            finally:
                self._limits.end(scope)

    async def _refuse_busy(self, send: Send) -> None:
        self._limits.refused_busy()
        found = busy("too many requests are in progress; try again")
        await _send_problem(send, found, RETRY_SECONDS, _CLOSE)

    async def _answer(self, client: Client, scope: Scope, receive: Receive, send: Send) -> None:
        self._clients.add(client)
        try:
            await self._app(scope, receive, send)
        finally:
            self._clients.discard(client)
            body = scope.get(BODY)
            if body is not None:
                self._bodies.give_back(body)  # type: ignore[arg-type]

    async def _refuse(self, excess: Excess, send: Send) -> None:
        await self._limits.wait()
        await _send_problem(send, problem(429, DETAILS[excess.limit]), str(excess.seconds))

    def _has_room(self) -> bool:
        # A request that is ended frees its place as soon as it has been answered.
        return (
            len(self._clients) < self._most
            or self._bodies.end_slow(1) > 0
            or self._bodies.end_longest(self._most // 4)
        )


def _closing(send: Send) -> Send:
    """A `send` that closes the connection after the answer."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], _CLOSE]
        await send(message)

    return sent


async def _send_problem(send: Send, found: Problem, retry_after: str, *headers: Header) -> None:
    body = msgspec.json.encode(found)
    given = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", retry_after.encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": found.status, "headers": given})
    await send({"type": "http.response.body", "body": body, "more_body": False})
