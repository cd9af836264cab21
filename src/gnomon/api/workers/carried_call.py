"""A call that has come through a broker, as a request of ASGI.

Whoever may use the channels sends what they like: of a call only what is bounded here is passed on.
"""

import asyncio
from typing import Any
from urllib.parse import unquote

import msgspec
from litestar.types import ASGIApp, HTTPReceiveMessage, Message, Scope

from gnomon.api.http.answers.problems import MEDIA_TYPE, RETRY_SECONDS, Problem, problem
from gnomon.api.http.bounds.request_limits import CONNECTION
from gnomon.pipe.meeting.frames import CARRIED_HEADERS, PipeAnswer, PipeCall

MOST_PATH = 8 * 1024  # characters, with the query
MOST_HEADERS = 50
MOST_HEADER = 8 * 1024  # characters of a value
# Of a worker, and of what it makes known of its app.
_PATHS = ("/api/v1/worker-sessions", "/api/v1/task-types", "/api/v1/workflows", "/api/v1/cron-jobs")
_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE"))
_ANSWERED = frozenset((b"content-type", b"retry-after"))
_HOST = "pipe"  # in place of an address: there is none


def fault(call: PipeCall) -> Problem | None:
    """What keeps a call from being one that a worker makes."""
    carried = [call.headers[name] for name in CARRIED_HEADERS if name in call.headers]
    path, _, _ = call.path.partition("?")
    if len(call.path) > MOST_PATH:
        return problem(400, f"the path has more than {MOST_PATH} characters")
    if len(call.headers) > MOST_HEADERS:
        return problem(400, f"there are more than {MOST_HEADERS} headers")
    if any(len(value) > MOST_HEADER for value in carried):
        return problem(400, f"a header has more than {MOST_HEADER} characters")
    if not call.path.isascii() or not all(_is_latin(value) for value in carried):
        return problem(400, "the path is not ASCII, or a header is not Latin-1")
    if not any(path == each or path.startswith(f"{each}/") for each in _PATHS):
        return problem(404, f"through a broker there are only {', '.join(_PATHS)}")
    if call.method not in _METHODS:
        return problem(405, f"the method is none of {', '.join(sorted(_METHODS))}")
    return None


def refusal(call: PipeCall, found: Problem) -> PipeAnswer:
    headers = {"content-type": MEDIA_TYPE}
    if found.status == 503:
        headers["retry-after"] = RETRY_SECONDS
    return PipeAnswer(call.number, found.status, headers, msgspec.json.encode(found))


class CarriedCall:
    """A call without a fault, until it is answered."""

    def __init__(self, call: PipeCall, number: int, size: int) -> None:
        """`number`: no other call of this process has it. `size`: of its frame."""
        self._call = call
        self._number = number
        self.size = size  # bytes that it holds
        self.closed = asyncio.Event()  # its worker has gone
        self._asked = False
        self._status = 500
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    async def answered(self, app: ASGIApp) -> PipeAnswer:
        await app(self._scope(), self._receive, self._send)
        return PipeAnswer(self._call.number, self._status, self._headers, bytes(self._body))

    def _scope(self) -> Scope:
        call = self._call
        path, _, query = call.path.partition("?")
        headers = [
            (name.encode(), call.headers[name].encode("latin-1"))
            for name in CARRIED_HEADERS
            if name in call.headers
        ]
        headers += [(b"host", b"localhost"), (b"content-length", str(len(call.body)).encode())]
        scope: Any = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": call.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": headers,
            "client": (_HOST, self._number),
            "server": ("localhost", 80),
            "extensions": {},
            CONNECTION: call.answer_to,
        }
        return scope  # type: ignore[no-any-return]

    async def _receive(self) -> HTTPReceiveMessage:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._call.body, "more_body": False}
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                n.decode("latin-1"): v.decode("latin-1")
                for n, v in message["headers"]
                if n.lower() in _ANSWERED
            }
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")


def _is_latin(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
