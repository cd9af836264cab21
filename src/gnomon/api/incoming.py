"""Bodies and queries, read within bounds and checked against their types."""

import asyncio
import io
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from gnomon.api.bodies import BODY, Bodies, Body
from gnomon.api.context import Request, context_of, header_of, principal_of
from gnomon.api.explaining import explain, position
from gnomon.api.problems import BodyLate, NoRoom, RequestError
from gnomon.model.errors import GnomonError, InvalidTask

_DRAINED_BYTES = 64 * 1024 * 1024  # beyond the limit, before the connection is closed

_T = TypeVar("_T")
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Never holds more than `limit` bytes of it. Raises BodyLate, NoRoom."""
    context = context_of(request)
    announced = header_of(request, b"content-length") or ""
    size = int(announced) if announced.isdecimal() else 0
    reading = _Reading(context.bodies, size, limit)
    try:
        async with asyncio.timeout(None) as arriving:
            tenant_id = principal_of(request).tenant_id
            body = context.bodies.begin(tenant_id, size or limit, arriving)
            # Whoever answers the request gives back what it holds.
            request.scope[BODY] = body  # type: ignore[literal-required]
            await reading.run(request, body)
    except TimeoutError as error:
        raise reading.refused or BodyLate(context.settings.body_seconds) from error
    context.bodies.complete(body)
    if reading.refused is not None:
        raise reading.refused
    content = reading.content.getvalue()
    if content:
        _check_media_type(request)
    return content


class _Reading:
    """A body as it is read, or as it is dropped: a client that is still sending does not look for
    an answer."""

    def __init__(self, bodies: Bodies, size: int, limit: int) -> None:
        self.content = io.BytesIO()  # its value is no copy, as that of joined parts would be
        self.refused: GnomonError | None = None
        self._bodies = bodies
        self._size = size  # as announced; 0 where nothing is
        self._limit = limit

    async def run(self, request: Request, body: Body) -> None:
        while max(body.received, self._size) <= self._limit + _DRAINED_BYTES:
            event = await request.receive()
            if event["type"] == "http.disconnect":
                raise RequestError(400, "the body ended before its time")
            assert event["type"] == "http.request"
            chunk = event["body"]
            self._bodies.arrived(body, len(chunk))
            if self.refused is None:
                await self._keep(body, chunk)
            if body.received == self._size > 0 or not event["more_body"]:
                break
        else:
            self.refused = self._too_large()

    async def _keep(self, body: Body, chunk: bytes) -> None:
        if max(body.received, self._size) > self._limit:
            self._refuse(body, self._too_large())
            return
        try:
            await self._bodies.room(body, len(chunk))
        except NoRoom as error:
            self._refuse(body, error)
        else:
            self.content.write(chunk)

    def _refuse(self, body: Body, error: GnomonError) -> None:
        self.refused = error
        self.content = io.BytesIO()
        self._bodies.drop(body)

    def _too_large(self) -> RequestError:
        return RequestError(413, f"the body must be at most {self._limit} bytes")


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
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        found = explain(error, kind)
        raise InvalidTask(
            found.detail.replace("unknown field", "unknown parameter"), found.pointer
        ) from error


def _check_media_type(request: Request) -> None:
    sent = header_of(request, b"content-type")
    if not sent:
        # A browser sends a body of no type for any page, without asking the server first.
        raise RequestError(415, "say what the body is: content-type: application/json")
    kind = sent.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and "+json" in kind):
        raise RequestError(415, f"the body must be application/json; it is said to be {kind!r}")
