"""Server-sent events: an answer that goes on for as long as its reader does, and the process."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from gnomon.access.grant_errors import OperatorNeeded, TenantNeeded
from gnomon.api.auth.access import admit_again
from gnomon.api.context import Request
from gnomon.loop import unless
from gnomon.model.errors import RoleMissing, StoreError, Unauthenticated

MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE_SECONDS = 15.0  # proxies and browsers give up what is silent for a minute
LONGEST_SECONDS = 600.0  # the reader opens another one: it may be of another process
HEADERS = {
    "content-type": MEDIA_TYPE,
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would hold events back
}

T = TypeVar("T")


class EventStream(ASGIResponse, Generic[T]):
    """Opens what is read from, which may refuse, and sends its parts."""

    _should_set_content_length = False

    def __init__(
        self, opened: AbstractContextManager[T], parts: Callable[[T], AsyncIterator[bytes]]
    ) -> None:
        super().__init__(headers=dict(HEADERS))
        self._opened = opened
        self._parts = parts

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._opened as source:  # may refuse, before anything is sent
            await self.start_response(send)
            await unless(_closed(receive), self._send(source, send))

    async def _send(self, source: T, send: Send) -> None:
        async for part in self._parts(source):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def only_head() -> ASGIResponse:
    """The answer to HEAD."""
    return ASGIResponse(headers=dict(HEADERS), is_head_response=True)


async def is_still_admitted(request: Request) -> bool:
    """Whether the session or key of a request, and the key behind it, still allow to look."""
    try:
        await admit_again(request)
    except (Unauthenticated, RoleMissing, OperatorNeeded, TenantNeeded):
        return False
    except StoreError:
        pass  # nobody can tell now, and nothing can be read, either
    return True


async def _closed(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
