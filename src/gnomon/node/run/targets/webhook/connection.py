"""One connection to a receiver of webhooks: a request, its answer, and perhaps the next."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from gnomon.node.run.targets.webhook.answer import AnswerReader, HttpAnswer, UnreadableAnswer

# A request that is longer may still lie in some buffer when its answer comes, where nobody can see
# it: of TLS, of the system, of a receiver that reads no further. The next one would wait behind it.
KEPT_REQUEST_BYTES = 64 * 1024


class Disconnected(ConnectionError):
    """The connection ended before an answer came. Whether the request was read, nobody knows."""


class WebhookConnection(asyncio.Protocol):
    """Sends one request at a time. What comes when nothing is asked closes it: it would be taken
    for the answer to the next request."""

    __slots__ = (
        "_ended", "_is_last", "_may_begin", "_on_end", "_reader", "_request", "_transport",
        "_waiter", "idle_since", "withheld",
    )  # fmt: skip

    def __init__(
        self, on_end: Callable[["WebhookConnection"], None], may_begin: Callable[[], bool]
    ) -> None:
        self._on_end = on_end
        self._may_begin = may_begin
        self.withheld = False  # its first request, which might not be sent any more
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None  # made when the first bytes come
        self._request: Sequence[bytes] = ()  # to be sent once it is connected
        self._waiter: asyncio.Future[None] | None = None  # for the answer
        self._ended = False
        self._is_last = False  # no other request is to follow
        self.idle_since = 0.0

    def send(self, request: Sequence[bytes]) -> None:
        """Send a request, now or when it is connected. Then wait for its `answer`."""
        self._waiter = asyncio.get_running_loop().create_future()
        if self._reader is not None:
            self._reader.expect()
        self._is_last = sum(map(len, request)) > KEPT_REQUEST_BYTES
        if self._transport is None:
            self._request = request
        else:
            self._write(self._transport, request)

    async def answer(self) -> HttpAnswer:
        """The answer to the request. Raises OSError or UnreadableAnswer where there is none. Once
        its status has come it decides, and a cancellation is too late."""
        waiter = self._waiter
        assert waiter is not None, "a request was sent"
        try:
            await waiter
        except asyncio.CancelledError:
            if self._reader is None or not self._reader.status:
                raise
        finally:
            self._waiter = None
        assert self._reader is not None, "it has read the answer"
        return self._reader.answer()

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent: the answer has come to its end, the request was
        short and has gone out, and neither side has ended it."""
        return (
            not self._ended
            and not self._is_last
            and self._reader is not None
            and self._reader.is_clean
            and self._transport is not None
            and not self._transport.is_closing()
            and not self._transport.get_write_buffer_size()
        )

    def abort(self) -> None:
        """End it now, whatever is under way."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._ended:  # nobody waits for it any more
            self._transport.abort()
            return
        if not self._may_begin():
            self.withheld = True
            return
        request, self._request = self._request, ()
        self._write(self._transport, request)

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.abort()
            return
        if self._reader is None:
            self._reader = AnswerReader()
        try:
            self._reader.feed(data)
        except UnreadableAnswer as error:
            _fail(waiter, error)
            self.abort()
            return
        if self._reader.is_over:
            waiter.set_result(None)

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        self._on_end(self)

    def _end(self, error: Exception | None) -> None:
        self._ended = True
        has_answer = self._reader is not None and self._reader.end(clean=error is None)
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if has_answer:
            waiter.set_result(None)
        else:
            _fail(waiter, error or Disconnected("it was closed before an answer came"))

    def _write(self, transport: asyncio.Transport, request: Sequence[bytes]) -> None:
        for piece in request:
            transport.write(piece)


def _fail(waiter: "asyncio.Future[None]", error: Exception) -> None:
    waiter.set_exception(error)
    waiter.exception()  # whoever was to wait may have been cancelled before: nobody needs a log
