"""Operations are called by what is known of them. Litestar finds their routes, and answers what has
none."""

from litestar import Litestar
from litestar import Request as LitestarRequest
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.types import Receive, Scope, Send
from litestar.utils import normalize_path

from gnomon.api.auth.access import admit
from gnomon.api.context import Request
from gnomon.api.http.answers.problems import answer_error
from gnomon.api.http.document.operation import JSON, operation_of
from gnomon.api.http.requests.headers import headers_of


class OperationCalls:
    """The application of these routes. Its answers are those that Litestar would give; but an
    operation takes the request alone and answers ready, so that what Litestar does around it in
    general (arguments, caches, hooks, forms) would do nothing, for a tenth of what a submission
    costs the process."""

    def __init__(self, routes: Litestar) -> None:
        self._routes = routes
        self._find = routes.asgi_router.handle_routing
        # By method and path, of operations without names in their paths: there are only so many.
        self._found: dict[tuple[str, str], BaseRouteHandler] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._operation(scope)
        if handler is None:
            await self._routes(scope, receive, send)
            return
        request: Request = LitestarRequest(scope, receive, send)
        try:
            await admit(request)
            answer = await handler.fn(request)
        except Exception as error:  # noqa: BLE001 - every error has its answer
            answer = answer_error(request, error).to_asgi_response(app=None, request=request)
        await answer(scope, receive, send)

    def _operation(self, scope: Scope) -> BaseRouteHandler | None:
        """The operation that is asked for, noted in the scope as Litestar does it."""
        if not _names_a_host(scope):
            return None
        asked = scope["method"], scope["path"]  # type: ignore[typeddict-item]
        handler = self._found.get(asked)
        if handler is None:
            return self._look_up(scope, asked)
        self._note(scope, handler)
        scope["path_params"], scope["path_template"] = {}, asked[1]
        return handler

    def _look_up(self, scope: Scope, asked: tuple[str, str]) -> BaseRouteHandler | None:
        try:
            found = self._find(path=normalize_path(asked[1]), method=scope["method"])  # type: ignore[typeddict-item]
        except HTTPException:
            return None  # for no route; Litestar says which way it is wrong
        _, handler, path, names, template = found
        operation = operation_of(handler)
        if operation is None or operation.media_type != JSON:
            return None  # a stream may fail before it begins, which Litestar sees to
        if asked[1] == path == template and not names:
            self._found[asked] = handler
        self._note(scope, handler)
        scope["path"], scope["path_params"], scope["path_template"] = path, names, template
        return handler

    def _note(self, scope: Scope, handler: BaseRouteHandler) -> None:
        scope["app"] = scope["litestar_app"] = self._routes
        scope["route_handler"] = handler  # type: ignore[arg-type]


def _names_a_host(scope: Scope) -> bool:
    """Whether it is certain that Litestar would take the header: letters, digits, dots and a port.
    It is asked about all others."""
    value = headers_of(scope).get(b"host")  # type: ignore[arg-type]
    return value is None or value.translate(None, b".:-[]").isalnum()
