"""Reads what is left of a request before an answer that nobody needed its body for.

A client that is still sending would not see that answer, for the server closes what nobody reads. A
small body is out of the client's hands already, and one that is sent on demand will not be sent.
"""

import asyncio

from litestar.types import Message, Receive, Scope, Send

from gnomon.access.client_address import Headers
from gnomon.api.http.bodies import BODY, NOBODY, SMALL_BYTES, Bodies
from gnomon.api.http.problems import Busy
from gnomon.api.http.refusals import Refusals

DRAINED_BYTES = 64 * 1024 * 1024  # of one body, before the connection is closed
_MOST_DIGITS = 20  # of a size


class Dropping:
    """Within the bounds of one process: of the bodies that arrive, and of the bytes in a second."""

    def __init__(self, bodies: Bodies, refusals: Refusals) -> None:
        self._bodies = bodies
        self._refusals = refusals

    def before_answer(self, scope: Scope, receive: Receive, send: Send) -> Send:
        """The same way to answer; before the answer of a request whose body nobody has begun to
        read, it is dropped."""
        size = _to_drop(scope["headers"])
        if not size:
            return send

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and scope.get(BODY) is None:
                await self._drop(scope, receive, size)
            await send(message)

        return sent

    async def _drop(self, scope: Scope, receive: Receive, size: int) -> None:
        if not self._refusals.may_drop(size):
            return
        try:
            body = self._bodies.begin(NOBODY, size)
        except Busy:
            return
        scope[BODY] = body  # type: ignore[literal-required]
        try:
            while body.received <= DRAINED_BYTES:
                event = await receive()
                if event["type"] != "http.request":
                    return
                self._bodies.arrived(body, len(event["body"]))
                if not event["more_body"]:
                    return
        except asyncio.CancelledError:
            if not body.late or body.reader is None or body.reader.uncancel() > 0:
                raise
        finally:
            self._bodies.give_back(body)


def _to_drop(headers: Headers) -> int:
    """How many bytes; 0 where there is no need to read them, or they are too many."""
    size, chunked = 0, False
    for name, value in headers:
        if name == b"content-length":
            size = int(value) if value.isdigit() and len(value) < _MOST_DIGITS else 0
        elif name == b"transfer-encoding":
            chunked = True
        elif name == b"expect":
            return 0
    if chunked:
        return DRAINED_BYTES
    return size if SMALL_BYTES < size <= DRAINED_BYTES else 0
