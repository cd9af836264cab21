"""Requests of webhooks, as bytes. What is the same in every call of a target is made once. Pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from yarl import URL

from gnomon.model.targets.target import HttpTarget
from gnomon.version import VERSION

# They go before every call; a target may have its own instead.
_DEFAULTS = {
    "accept": "*/*",
    "accept-encoding": "identity",  # the body is kept as text
    "content-type": "application/json",
    "user-agent": f"gnomon/{VERSION}",
}
_OF_A_CALL = ("x-request-id", "traceparent", "tracestate")  # that a target may have as well
_KEPT_CHARACTERS = 4096  # of a target whose plan is kept: tenants write what they like
_JOINED_BYTES = 64 * 1024  # up to which a body is worth copying to be sent in one piece


class ServerOrigin(NamedTuple):
    """A server: whom a connection can be used for."""

    host: str  # as it is looked up, and shown in its certificate
    port: int
    secure: bool


class CallPlan(NamedTuple):
    """A target as it is called every time."""

    url: str
    origin: ServerOrigin
    head: str  # the first lines of the request
    own: Mapping[str, str]  # headers of the target that a call may have to say itself
    sends_length: bool  # even if there is no body


def plan_of(target: HttpTarget) -> CallPlan:
    """Raises ValueError where it cannot be called: it may be older than the rules."""
    own = tuple(target.headers.items())
    size = len(target.url) + sum([len(name) + len(value) for name, value in own])
    make = _kept_plan if size <= _KEPT_CHARACTERS else _plan
    return make(target.url, target.method, own)


def _plan(url: str, method: str, own: tuple[tuple[str, str], ...]) -> CallPlan:
    HttpTarget(url, method, dict(own)).check()
    parts = URL(url)  # as allow-lists read it
    host, port = parts.raw_host, parts.port
    if not host or port is None:
        raise ValueError("url must name a host")
    headers = {name: (name, value) for name, value in _DEFAULTS.items()}
    headers.update((name.lower(), (name, value)) for name, value in own)
    of_call = {name: headers.pop(name)[1] for name in _OF_A_CALL if name in headers}
    first = f"{method} {parts.raw_path_qs} HTTP/1.1\r\nhost: {parts.host_port_subcomponent}\r\n"
    head = first + "".join([f"{name}: {value}\r\n" for name, value in headers.values()])
    origin = ServerOrigin(host, port, parts.scheme == "https")
    return CallPlan(url, origin, head, of_call, sends_length=method != "GET")


_kept_plan = lru_cache(maxsize=4096)(_plan)  # the same few, again and again


def request_of(plan: CallPlan, headers: Mapping[str, str], body: bytes) -> list[bytes]:
    """The request, in the pieces to send. Raises ValueError where a header holds what would end
    it."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    ends = len(headers)
    if lines.count("\n") != ends or lines.count("\r") != ends or "\0" in lines:
        raise ValueError("one of its headers holds the end of a line")
    if body or plan.sends_length:
        lines += f"content-length: {len(body)}\r\n"
    head = f"{plan.head}{lines}\r\n".encode()
    return [head + body] if len(body) <= _JOINED_BYTES else [head, body]
