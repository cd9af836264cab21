"""Views of Flask that receive webhooks."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import Response, current_app, request

from gnomon.receive.answers import ANSWERED, WebhookAnswer, answer_to, success
from gnomon.receive.endpoint import endpoint_of
from gnomon.receive.webhooks import Webhooks

View = Callable[..., Response]


def endpoint(webhooks: Webhooks) -> Callable[[Callable[..., Any]], View]:
    """Make a view of a function with a parameter `Received[Payload]`; the others are those of its
    route. An async function needs Flask's own extra for them."""

    def made(function: Callable[..., Any]) -> View:
        taken = endpoint_of(function)

        @wraps(function)
        def view(**others: Any) -> Response:
            try:
                others[taken.parameter] = webhooks.read(
                    dict(request.headers), request.get_data(), taken.payload
                )
                return _sent(success(current_app.ensure_sync(function)(**others)))
            except ANSWERED as raised:
                return _sent(answer_to(raised))

        return view

    return made


def _sent(answer: WebhookAnswer) -> Response:
    return Response(answer.body, answer.status, answer.all_headers)
