"""The OpenAPI document, and a page that shows it."""

import asyncio
from importlib.resources import files

from litestar import Response, route

from gnomon.api.auth.access import OPEN
from gnomon.api.context import Request
from gnomon.api.http.answers.response_headers import page_policy
from gnomon.api.http.document.operation import READ

_DOCS_PATH = "/api/v1/docs"


@route("/api/v1/openapi.json", http_method=READ, opt=OPEN)
async def openapi_json(request: Request) -> Response[bytes]:
    made = await asyncio.to_thread(request.app.state.openapi)  # the first time takes long
    return Response(made, media_type="application/json")


@route(_DOCS_PATH, http_method=READ, opt=OPEN, sync_to_thread=False)
def docs() -> Response[bytes]:
    page = files(__package__).joinpath("docs.html").read_text(encoding="utf-8")
    return Response(
        page.encode(),
        media_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": page_policy(page)},
    )
