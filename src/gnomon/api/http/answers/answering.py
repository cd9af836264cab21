"""Around every request: an id, headers of its answer and, if wanted, a line in the log."""

from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

import structlog

from gnomon.api.http.answers.response_headers import Headers, with_security
from gnomon.api.http.requests.origins import REQUEST_ID
from gnomon.api.http.requests.paths import shown_path
from gnomon.model.tasks.origin import is_correlation_id
from gnomon.observe.log_fields import current_request

log = structlog.get_logger("gnomon.access")

Said = Callable[..., object]  # of a logger, at some level


class Answering:
    """An ASGI application around another one."""

    def __init__(self, app: Any, process: UUID, access: "AccessLog | None" = None) -> None:
        self._app = app
        self._access = access
        self._prefix = f"{process.hex[-12:]}-"
        self._numbers = count(1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request_id = scope["request_id"] = _given(scope) or f"{self._prefix}{next(self._numbers)}"
        own = (REQUEST_ID, request_id.encode())
        current_request.set(scope)
        if self._access is not None:
            send = self._access.noted(scope, send)

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*with_security(message["headers"]), own]
            await send(message)

        await self._app(scope, receive, sent)


class AccessLog:
    """A line for each request, once its answer begins."""

    def __init__(self, monotonic: Callable[[], float], *, is_wanted: bool) -> None:
        self._monotonic = monotonic
        self._say: Said = log.info if is_wanted else log.debug

    def noted(self, scope: Any, send: Any) -> Any:
        began = self._monotonic()

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._say(
                    "request",
                    method=scope["method"],
                    path=shown_path(scope),
                    status=message["status"],
                    seconds=round(self._monotonic() - began, 6),
                )
            await send(message)

        return sent


def _given(scope: Any) -> str | None:
    headers: Headers = scope["headers"]
    for name, value in headers:
        if name == REQUEST_ID:
            text = value.decode("latin-1")
            return text if is_correlation_id(text) else None
    return None
