"""Reads bodies and queries within limits, and decodes them into their types."""

import asyncio
import io
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from gnomon.api.context import Request, context_of, header_of, share_of
from gnomon.api.http.answers.problems import BodyLate, GaveWay, NoRoom, RequestError
from gnomon.api.http.bounds.bodies import BODY, Body
from gnomon.api.http.bounds.dropping import DRAINED_BYTES
from gnomon.model.errors import GnomonError, InvalidTask
from gnomon.usecases.checks.validation import explain, of_texts, position

_T = TypeVar("_T")
_FORM = "application/x-www-form-urlencoded"
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body; never holds more than `limit` bytes of it. Raises BodyLate, Busy."""
    content = await _received(request, share_of(request), limit)
    if content:
        _check_media_type(request)
    return content


async def read_form(request: Request, limit: int) -> dict[str, str]:
    """The fields of a form of a page. Raises RequestError, BodyLate, Busy."""
    share = share_of(request) if "auth" in request.scope else ""
    content = await _received(request, share, limit)
    kind = (header_of(request, b"content-type") or "").partition(";")[0].strip().lower()
    if content and kind != _FORM:
        raise RequestError(415, f"the body must be {_FORM}, not {kind!r}")
    try:
        fields = parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise RequestError(400, f"the body is no form: {error}") from error
    if any("\0" in value for _, value in fields):
        raise RequestError(422, "a field must not contain the character NUL")
    return dict(fields)


def _announced(request: Request) -> int:
    announced = header_of(request, b"content-length") or ""
    return int(announced) if announced.isdecimal() else 0


async def _received(request: Request, share: str, limit: int) -> bytes:
    context, size = context_of(request), _announced(request)
    body = context.bodies.begin(share, size or limit)
    # Freed when the request has been answered.
    request.scope[BODY] = body  # type: ignore[literal-required]
    reading = None
    try:
        content, more = await _next_part(request)
        # Nearly all are small, and come in one part.
        if not (0 < size == len(content) <= limit and context.bodies.take_small(body, size)):
            reading = _Reading(request, body, size, limit)
            content = await reading.run(content, more=more)
    except asyncio.CancelledError:
        if not body.late or body.reader is None or body.reader.uncancel() > 0:
            raise
        if body.gave_way:
            raise GaveWay from None
        if reading is not None and reading.refusal is not None:
            raise reading.refusal() from None
        raise BodyLate(context.settings.api.body_seconds) from None
    return content


async def _next_part(request: Request) -> tuple[bytes, bool]:
    """The next part of the body, and whether there may be more."""
    event = await request.receive()
    if event["type"] == "http.disconnect":
        raise RequestError(400, "the connection was closed before the end of the body")
    assert event["type"] == "http.request"
    return event["body"], event["more_body"]


class _Reading:
    """Reads a body, or drops it, because a client that is still sending does not read the answer.

    Neither this nor `_received` stores an exception, only how to make it: a stored exception and
    the frames in its traceback are a cycle. Until the garbage collector found it, the body would
    stay in memory, and the server would wait for the rest of it.
    """

    def __init__(self, request: Request, body: Body, size: int, limit: int) -> None:
        self.refusal: Callable[[], GnomonError] | None = None
        self._request = request
        self._bodies = context_of(request).bodies
        self._body = body
        self._size = size  # as announced; 0 where nothing is
        self._limit = limit
        self._content = io.BytesIO()  # its value is not a copy, unlike joined parts

    async def run(self, part: bytes, *, more: bool) -> bytes:
        """The whole body, from its first part."""
        body = self._body
        while True:
            self._bodies.arrived(body, len(part))
            if self.refusal is None:
                await self._keep(part)
            if body.received == self._size > 0 or not more:
                break
            if max(body.received, self._size) > self._limit + DRAINED_BYTES:
                break
            part, more = await _next_part(self._request)
        self._bodies.complete(body)
        if self.refusal is not None:
            raise self.refusal()
        return self._content.getvalue()

    async def _keep(self, part: bytes) -> None:
        if max(self._body.received, self._size) > self._limit:
            detail = f"the body must be at most {self._limit} bytes"
            self._refuse(partial(RequestError, 413, detail))
            return
        try:
            await self._bodies.room(self._body, len(part))
        except NoRoom:
            self._refuse(NoRoom)
        else:
            self._content.write(part)

    def _refuse(self, refusal: Callable[[], GnomonError]) -> None:
        self.refusal = refusal
        self._content = io.BytesIO()
        self._bodies.drop(self._body)


def decoded(body: bytes, kind: type[_T]) -> _T:
    """The body as a value of its type."""
    if not body:
        body = b"{}"
    try:
        decoder: msgspec.json.Decoder[_T] | None = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise explain(error, kind) from error
    except msgspec.DecodeError as error:
        raise RequestError(400, f"the body is not JSON: {position(error, body)}") from error
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the body is not UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise InvalidTask("the body is nested too deeply") from error


def queried(request: Request, kind: type[_T]) -> _T:
    """The query parameters as a value of their type."""
    text: bytes = request.scope["query_string"]
    values: dict[str, str] = {}
    for name, value in parse_qsl(text.decode("latin-1"), keep_blank_values=True):
        if name in values:
            raise InvalidTask("is given twice", f"/{name}")
        if "\0" in value:
            raise InvalidTask("must not contain the character NUL", f"/{name}")
        values[name] = value
    try:
        return of_texts(values, kind)
    except InvalidTask as error:
        raise InvalidTask(
            error.detail.replace("unknown field", "unknown parameter"), error.pointer
        ) from error


def _check_media_type(request: Request) -> None:
    sent = header_of(request, b"content-type")
    if not sent:
        # A browser sends a body without a type for any page, without a preflight request.
        raise RequestError(415, "the header Content-Type is missing; send application/json")
    kind = sent.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and "+json" in kind):
        raise RequestError(415, f"the body must be application/json, not {kind!r}")
