"""An operation answers the same, in every header and word, as if Litestar had called it."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp
from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS

from gnomon.api import app as application
from gnomon.api.context import CONTEXT, Context
from gnomon.api.http.document.operation import JSON as JSON_TYPE
from gnomon.api.http.document.operation import operation_of
from gnomon.api.http.requests.paths import keep_names_whole
from gnomon.wiring import api as wiring

NOBODY = "01890000-0000-7000-8000-000000000000"
OWN = (b"host", b"127.0.0.1:8080")
JSON = (b"content-type", b"application/json")
DIGITS = re.compile(rb"[.0-9]+")  # of moments and durations
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


@pytest.fixture
async def context(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Context]:
    """The context of a process that serves."""
    made: list[Context] = []

    def noted(context: Context, pages: Any = ()) -> ASGIApp:
        made.append(context)
        return application.create_app(context, pages)

    monkeypatch.setattr(wiring, "create_app", noted)
    async with serving(database_dsn, **getattr(request, "param", {})):
        yield made[0]


async def test_all_operations_answer_as_litestar_would(context: Context) -> None:
    asked = 0
    app = application.create_app(context)  # one for all: it remembers what it has found
    for method, path in operations():
        for headers, body in ways():
            given = request_of(method, path, headers)
            expected = await answer_of(litestar(context), given, body)
            assert await answer_of(app, given, body) == expected, given
            asked += 1
    assert asked > 400


@pytest.mark.parametrize("context", [{"auth_enabled": True}], indirect=True)
@pytest.mark.parametrize("key", [b"", b"nobody"])
async def test_so_they_do_where_a_key_is_wrong(context: Context, key: bytes) -> None:
    given = request_of("POST", TASKS, [OWN, JSON, (b"authorization", b"Bearer " + key)])
    assert context.limits.exceeded(given) is None  # type: ignore[arg-type] # it notes the caller
    expected = await answer_of(litestar(context), given, b"{}")
    assert await answer_of(application.create_app(context), given, b"{}") == expected
    assert expected[0] == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", TASKS + "/"),
        ("POST", "/api//v1/tasks"),
        ("HEAD", TASKS),
        ("OPTIONS", TASKS),
        ("BREW", TASKS),
        ("PUT", TASKS),
        ("GET", "/nothing"),
        ("GET", "/api/v1/cron/a%2Fb"),
        ("GET", "/healthz"),
    ],
)
async def test_so_do_all_ways_to_write_a_path(context: Context, method: str, path: str) -> None:
    given = request_of(method, path, [OWN, JSON])
    expected = await answer_of(litestar(context), given, b"{")
    assert await answer_of(application.create_app(context), given, b"{") == expected


async def test_a_submission_has_the_same_headers_and_fields(context: Context) -> None:
    given, body = request_of("POST", TASKS, [OWN, JSON]), msgspec.json.encode(BODY)
    status, headers, text = await answer_of(application.create_app(context), given, body)
    expected = await answer_of(litestar(context), given, body)
    assert (status, headers) == expected[:2] == (202, headers)
    assert re.findall(rb'"[a-z_]+":', text) == re.findall(rb'"[a-z_]+":', expected[2])


def operations() -> Iterator[tuple[str, str]]:
    """Each of them, with the id or name of something that does not exist."""
    for route in application._routes(()).routes:
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            assert isinstance(handler, HTTPRouteHandler)
            operation = operation_of(handler)
            if operation is not None and operation.media_type == JSON_TYPE:  # no stream
                yield operation.method, re.sub(r"\{[^}]*\}", NOBODY, route.path)


def ways() -> Iterator[tuple[list[tuple[bytes, bytes]], bytes]]:
    """Ways to ask that change nothing."""
    yield [OWN, JSON, (b"content-length", b"1")], b"{"
    yield [OWN, (b"content-type", b"text/plain")], b"{"
    yield [OWN, JSON, (b"origin", b"https://elsewhere.example")], b"{}"
    yield [(b"host", b"a/b"), JSON], b"{}"
    yield [JSON], b"{"
    yield [OWN, JSON, (b"host", b"another:1")], b"{"


def request_of(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path.replace("%2F", "/"),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
    }


def litestar(context: Context) -> ASGIApp:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        scope[CONTEXT] = context
        keep_names_whole(scope)
        await application._routes(())(scope, receive, send)

    return answer


async def answer_of(app: ASGIApp, given: dict[str, Any], body: bytes) -> Answer:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(dict(given), receive, send)  # type: ignore[arg-type]
    begun, *parts = sent
    headers = [(name, value) for name, value in begun["headers"] if name != b"content-length"]
    return (
        begun["status"],
        sorted(headers),
        b"".join(DIGITS.sub(b"", part["body"]) for part in parts),
    )
