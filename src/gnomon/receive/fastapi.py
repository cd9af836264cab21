"""Endpoints of FastAPI and Starlette that receive webhooks."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gnomon.receive.answers import ANSWERED, WebhookAnswer, answer_to, success
from gnomon.receive.endpoint import endpoint_of
from gnomon.receive.webhooks import Webhooks

View = Callable[..., Awaitable[Response]]


def endpoint(webhooks: Webhooks) -> Callable[[Callable[..., Any]], View]:
    """Make an endpoint of a function with a parameter `Received[Payload]`. FastAPI fills its other
    parameters as usual. A function that is not async runs in a thread."""

    def made(function: Callable[..., Any]) -> View:
        taken = endpoint_of(function)
        is_async = inspect.iscoroutinefunction(function)

        @wraps(function)
        async def view(_request: Request, **others: Any) -> Response:
            body = await _request.body()
            try:
                others[taken.parameter] = webhooks.read(_request.headers, body, taken.payload)
                if is_async:
                    return _sent(success(await function(**others)))
                return _sent(success(await run_in_threadpool(function, **others)))
            except ANSWERED as raised:
                # Raised, not returned: a dependency that holds a transaction must not commit it.
                answer = answer_to(raised)
                raise HTTPException(answer.status, str(raised), answer.headers) from raised

        request = inspect.Parameter(
            "_request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Request
        )
        others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in taken.others]
        shown = inspect.Signature([request, *others], return_annotation=Response)
        view.__signature__ = shown  # type: ignore[attr-defined]
        del view.__wrapped__
        return view

    return made


def _sent(answer: WebhookAnswer) -> Response:
    return Response(answer.body, answer.status, answer.all_headers)
