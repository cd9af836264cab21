"""Views of Django that receive webhooks."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import connections
from django.http import HttpRequest, HttpResponse

from gnomon.receive.answers import ANSWERED, WebhookAnswer, answer_to, success
from gnomon.receive.endpoint import endpoint_of
from gnomon.receive.webhooks import Webhooks


def endpoint(webhooks: Webhooks) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a view of a function with a parameter `Received[Payload]`; the others are those of its
    path. An async function makes an async view."""

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        taken = endpoint_of(function)

        def given(request: HttpRequest, others: dict[str, Any]) -> dict[str, Any]:
            received = webhooks.read(request.headers, request.body, taken.payload)
            return {**others, taken.parameter: received}

        @wraps(function)
        def view(request: HttpRequest, **others: Any) -> HttpResponse:
            try:
                return _sent(success(function(**given(request, others))))
            except ANSWERED as raised:
                _roll_back()
                return _sent(answer_to(raised))

        @wraps(function)
        async def async_view(request: HttpRequest, **others: Any) -> HttpResponse:
            try:
                return _sent(success(await function(**given(request, others))))
            except ANSWERED as raised:
                return _sent(answer_to(raised))

        chosen: Callable[..., Any] = async_view if inspect.iscoroutinefunction(function) else view
        chosen.csrf_exempt = True  # type: ignore[attr-defined] # no other site can sign a call
        return chosen

    return made


def _roll_back() -> None:
    """A transaction around the view, of ATOMIC_REQUESTS or `atomic`, would be committed whatever
    the status of the answer. That of a TestCase is no such one."""
    for connection in connections.all(initialized_only=True):
        blocks = connection.atomic_blocks
        if blocks and not blocks[-1]._from_testcase:
            connection.set_rollback(True)


def _sent(answer: WebhookAnswer) -> HttpResponse:
    return HttpResponse(answer.body, status=answer.status, headers=answer.all_headers)
