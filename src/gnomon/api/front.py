"""The way in. Submissions, the one request that comes by the thousands, go straight to their
handler: routing and dispatch by the framework cost a third of a submission (measured)."""

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import Receive, Scope, Send

from gnomon.api.context import Request
from gnomon.api.problems import answer_error
from gnomon.api.tasks import PATH, accept


class Front:
    """An ASGI application around the one that knows all paths."""

    def __init__(self, app: Litestar) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == PATH and scope["type"] == ScopeType.HTTP and scope["method"] == "POST":
            await self._submit(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _submit(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["litestar_app"] = self._app
        request = Request(scope, receive, send)
        try:
            answer = await accept(request)
        except Exception as error:  # noqa: BLE001 - the same handler as everywhere
            answer = answer_error(request, error).to_asgi_response(app=None, request=request)
        await answer(scope, receive, send)
