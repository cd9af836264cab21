"""Requests of webhooks, as bytes. What is the same in every call of a target is made once. Pure."""

import sys
from collections import OrderedDict
from collections.abc import Mapping
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
_NEVER = "expect"  # the body is sent at once: nobody is asked before
# Tenants write what they like, so this bounds what is kept for them: 16 MB of text.
KEPT_BYTES = 4096  # of a plan and the target that it is for; one that has more is made every time
MOST_PLANS = 4096
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


_Key = tuple[str, str, tuple[tuple[str, str], ...]]
_plans: OrderedDict[_Key, CallPlan] = OrderedDict()  # the one that was used last is at the end


def plan_of(target: HttpTarget) -> CallPlan:
    """Raises ValueError where it cannot be called: it may be older than the rules."""
    key = (target.url, target.method, tuple(target.headers.items()))
    plan = _plans.get(key)
    if plan is not None:
        _plans.move_to_end(key)
        return plan
    plan = _plan(*key)
    if _size(key, plan) <= KEPT_BYTES:
        _plans[key] = plan
        if len(_plans) > MOST_PLANS:
            _plans.popitem(last=False)
    return plan


def _size(key: _Key, plan: CallPlan) -> int:
    """Bytes in memory: one odd letter makes all others of its text as wide as itself."""
    url, _, own = key
    return sum(map(sys.getsizeof, (url, plan.head, *(text for pair in own for text in pair))))


def _plan(url: str, method: str, own: tuple[tuple[str, str], ...]) -> CallPlan:
    HttpTarget(url, method, dict(own)).check()
    parts = URL(url)  # as allow-lists read it
    host, port = parts.raw_host, parts.port
    if not host or port is None:
        raise ValueError("url must name a host")
    headers = {name: (name, value) for name, value in _DEFAULTS.items()}
    headers.update((name.lower(), (name, value)) for name, value in own)
    headers.pop(_NEVER, None)
    of_call = {name: headers.pop(name)[1] for name in _OF_A_CALL if name in headers}
    first = f"{method} {parts.raw_path_qs} HTTP/1.1\r\nhost: {parts.host_port_subcomponent}\r\n"
    head = first + "".join([f"{name}: {value}\r\n" for name, value in headers.values()])
    origin = ServerOrigin(host, port, parts.scheme == "https")
    return CallPlan(url, origin, head, of_call, sends_length=method != "GET")


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
