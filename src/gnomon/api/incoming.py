"""Bodies and queries, read within bounds and checked against their types."""

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from gnomon.api.context import Request, header_of
from gnomon.api.explaining import explain, position
from gnomon.api.problems import RequestError
from gnomon.model.errors import InvalidTask

# What a request may hold besides its payload.
OVERHEAD_BYTES = 64 * 1024
# A client that is still sending does not look for an answer: so much more is read and dropped.
_DRAINED_BYTES = 64 * 1024 * 1024

_T = TypeVar("_T")
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Never holds more than `limit` bytes of it."""
    announced = header_of(request, b"content-length") or ""
    size = int(announced) if announced.isdecimal() else 0
    chunks: list[bytes] = []
    received = 0
    while received <= limit + _DRAINED_BYTES and size <= limit + _DRAINED_BYTES:
        event = await request.receive()
        if event["type"] == "http.disconnect":
            raise RequestError(400, "the body ended before its time")
        assert event["type"] == "http.request"
        chunk = event["body"]
        received += len(chunk)
        if received <= limit:
            chunks.append(chunk)
        if received == size > 0 or not event["more_body"]:
            break
    if max(received, size) > limit:
        raise RequestError(413, f"the body must be at most {limit} bytes")
    if received:
        _check_media_type(request)
    return b"".join(chunks)


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
