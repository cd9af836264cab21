"""Counts requests by their status, and measures how long each waits for its answer."""

from collections.abc import Awaitable

from litestar.handlers import BaseRouteHandler
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from gnomon.api.http.document.operation import operation_of
from gnomon.clock import Clock
from gnomon.observe.metrics.requests import RequestMetrics

_WAITED = "gnomon.waited"


class RequestMeter:
    """Measures up to the start of the answer: a stream has no end worth knowing. What is open to
    all (health, documents) is left out, for it would hide what others see."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics, clock: Clock) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        began = self._clock.monotonic()

        def sent(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"], self._clock.monotonic() - began)
            return send(message)

        return self._app(scope, receive, sent)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        handler: BaseRouteHandler | None = scope.get("route_handler")
        operation = None if handler is None else operation_of(handler)
        if operation is not None and operation.role is None:
            return
        submits = operation is not None and operation.paced
        self._metrics.answered(status, None if scope.get(_WAITED) else seconds, submits=submits)


def not_measured(scope: Scope) -> None:
    """The answer to this request waits for something else: how long says nothing about us."""
    scope[_WAITED] = True  # type: ignore[literal-required]
