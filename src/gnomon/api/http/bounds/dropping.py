"""Reads and drops the body of a request that is answered without it.

The server closes a connection whose request it has not read, and a client that is still sending
would not see the answer. A small body has left the client already, and one behind `Expect` is not
sent at all, so neither needs it.
"""

import asyncio
from collections.abc import Mapping

from litestar.types import Message, Receive, Scope, Send

from gnomon.api.http.answers.problems import Busy
from gnomon.api.http.bounds.bodies import BODY, NOBODY, SMALL_BYTES, Bodies
from gnomon.api.http.bounds.refusals import Refusals
from gnomon.api.http.requests.headers import headers_of

DRAINED_BYTES = 64 * 1024 * 1024  # of a larger body the rest is not read, and the connection closed
_MOST_DIGITS = 20  # of a size


class Dropping:
    """Drops unread bodies, within the limits of one process."""

    def __init__(self, bodies: Bodies, refusals: Refusals) -> None:
        self._bodies = bodies
        self._refusals = refusals

    def before_answer(self, scope: Scope, receive: Receive, send: Send) -> Send:
        """A `send` that first drops the body of the request if nobody has begun to read it."""
        size = _to_drop(headers_of(scope))  # type: ignore[arg-type]
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


def _to_drop(headers: Mapping[bytes, bytes]) -> int:
    """Bytes to read; 0 where that is not needed, or where there are too many."""
    if b"expect" in headers:
        return 0
    if b"transfer-encoding" in headers:
        return DRAINED_BYTES
    value = headers.get(b"content-length", b"")
    size = int(value) if value.isdigit() and len(value) < _MOST_DIGITS else 0
    return size if SMALL_BYTES < size <= DRAINED_BYTES else 0
