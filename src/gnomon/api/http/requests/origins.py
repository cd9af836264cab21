"""The origin of what a request submits, by its headers: X-Request-ID, traceparent, tracestate."""

from gnomon.api.context import Request
from gnomon.api.http.requests.headers import headers_of
from gnomon.model.tasks.origin import Origin, is_correlation_id, is_unsampled, origin_of, sampled

REQUEST_ID = b"x-request-id"
_PARENT, _STATE = b"traceparent", b"tracestate"
_TELLING = frozenset((REQUEST_ID, _PARENT, _STATE))


def requested_origin(request: Request) -> Origin | None:
    """None for most requests: they have none of the headers. A value that cannot be used is as good
    as none: whatever stands in front of the API may have put it there."""
    if _TELLING.isdisjoint(headers_of(request.scope)):  # type: ignore[arg-type]
        return None
    return _read([header for header in request.scope["headers"] if header[0] in _TELLING])


def _read(told: list[tuple[bytes, bytes]]) -> Origin | None:
    correlation_id = _only(told, REQUEST_ID)
    if correlation_id is not None and not is_correlation_id(correlation_id):
        correlation_id = None
    states = (value.decode("latin-1") for name, value in told if name == _STATE)
    return origin_of(correlation_id, sampled(_only(told, _PARENT), ",".join(states)))


def asks_not_to_be_traced(request: Request) -> bool:
    """Whether the request belongs to a trace that is not sampled."""
    told = [header for header in request.scope["headers"] if header[0] == _PARENT]
    return bool(told) and is_unsampled(_only(told, _PARENT))


def _only(told: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The header of this name. One that is there twice says nothing."""
    values = [value for each, value in told if each == name]
    return values[0].decode("latin-1").strip() if len(values) == 1 else None
