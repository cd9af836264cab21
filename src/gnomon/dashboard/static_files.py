"""The style sheet, scripts and vendored libraries: files of this package and no others."""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from litestar import route
from litestar.response.base import ASGIResponse

from gnomon.api.auth.access import OPEN
from gnomon.api.context import Request
from gnomon.api.http.answers.problems import RequestError
from gnomon.api.http.document.operation import READ

_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@route("/static/{name:path}", http_method=READ, opt=OPEN)
async def serve(request: Request) -> ASGIResponse:
    found = contents().get(request.path_params["name"].lstrip("/"))
    if found is None:
        raise RequestError(404, "there is no such file")
    kind, body = found
    # The address changes with the content: see rendering.static_url.
    headers = {"content-type": kind, "cache-control": "public, max-age=31536000, immutable"}
    return ASGIResponse(body=body, headers=headers)


@cache
def contents() -> dict[str, tuple[str, bytes]]:
    """Every file that is served, by its name."""
    return dict(_below(files("gnomon.dashboard").joinpath("static"), ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, tuple[str, bytes]]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _below(each, f"{prefix}{each.name}/")
        elif (kind := _KINDS.get(each.name.rpartition(".")[2])) is not None:
            found.append((prefix + each.name, (kind, each.read_bytes())))
    return found
