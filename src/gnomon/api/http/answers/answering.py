"""Around every request: an id, headers of its answer and, if wanted, a line in the log."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any
from uuid import UUID

import structlog

from gnomon.api.http.answers.response_headers import with_security
from gnomon.api.http.requests.headers import headers_of
from gnomon.api.http.requests.origins import REQUEST_ID
from gnomon.api.http.requests.paths import shown_path
from gnomon.model.tasks.origin import is_correlation_id
from gnomon.observe.log_fields import current_request

log = structlog.get_logger("gnomon.access")

Said = Callable[..., object]  # of a logger, at some level


class Answering:
    """An ASGI application around another one.

    Neither it nor what it sends by is a coroutine of its own: each would be made, and gone through
    at every step, for every request.
    """

    def __init__(self, app: Any, process: UUID, access: "AccessLog | None" = None) -> None:
        self._app = app
        self._access = access
        self._prefix = f"{process.hex[-12:]}-"
        self._numbers = count(1)

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        request_id = scope["request_id"] = _given(scope) or f"{self._prefix}{next(self._numbers)}"
        own = (REQUEST_ID, request_id.encode())
        current_request.set(scope)
        if self._access is not None:
            send = self._access.noted(scope, send)

        def sent(message: Any) -> Any:
            if message["type"] == "http.response.start":
                message["headers"] = [*with_security(message["headers"]), own]
            return send(message)

        answered: Awaitable[None] = self._app(scope, receive, sent)
        return answered


class AccessLog:
    """A line for each request, once its answer begins."""

    def __init__(self, monotonic: Callable[[], float], *, is_wanted: bool) -> None:
        self._monotonic = monotonic
        self._say: Said = log.info if is_wanted else log.debug

    def noted(self, scope: Any, send: Any) -> Any:
        began = self._monotonic()

        def sent(message: Any) -> Any:
            if message["type"] == "http.response.start":
                self._say(
                    "request",
                    method=scope["method"],
                    path=shown_path(scope),
                    status=message["status"],
                    seconds=round(self._monotonic() - began, 6),
                )
            return send(message)

        return sent


def _given(scope: Any) -> str | None:
    value = headers_of(scope).get(REQUEST_ID)
    if value is None:
        return None
    text = value.decode("latin-1")
    return text if is_correlation_id(text) else None
