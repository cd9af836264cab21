"""Calls and answers as they go through a broker, and the names of channels.

The version is part of the names: a process hears only what it can read. One that knows two versions
listens on channels of both, so old and new processes work side by side.
"""

import msgspec

VERSION = 1
# Of a request, and nothing besides: whatever else a sender adds is not passed on.
CARRIED_HEADERS = (
    "authorization", "content-type", "gnomon-session-secret", "idempotency-key", "traceparent",
    "tracestate", "user-agent",
)  # fmt: skip
MOST_CHANNEL = 255  # characters of a name
LARGEST_MESSAGE = 16 << 20  # bytes; what RabbitMQ 4 takes unless it is told otherwise
# An answer with deliveries fits: payloads up to so many bytes and the one that goes beyond them, so
# many tasks of up to 2 KiB besides, and 2 MiB of what was reported, granted and stopped.
CARRIED_ANSWER_BYTES = 4 << 20
LARGEST_CARRIED_PAYLOAD = 6 << 20
MOST_CARRIED_TASKS = 2_000
# What reading a frame may raise: a text that is not UTF-8 and depth are no error of msgspec's.
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_encode = msgspec.msgpack.Encoder().encode


class PipeCall(msgspec.Struct, frozen=True, array_like=True):
    """A request for a gateway. Fields that are added come last, with defaults."""

    number: int  # of those that go to one channel of answers
    answer_to: str
    method: str
    path: str  # with its query
    headers: dict[str, str]
    body: bytes


class PipeAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to the call of this number."""

    number: int
    status: int
    headers: dict[str, str]
    body: bytes


def encoded(frame: PipeCall | PipeAnswer) -> bytes:
    return _encode(frame)


def gateway_channel(namespace: str, name: str) -> str:
    """Where a gateway hears calls."""
    return f"{namespace}:{VERSION}:gateway:{name}"


def beat_channel(namespace: str) -> str:
    """Where gateways say every second that they are well."""
    return f"{namespace}:{VERSION}:beats"


def calls_name(namespace: str) -> str:
    """What all calls go through, where a broker has such a thing."""
    return f"{namespace}:{VERSION}:calls"


def answers_name(namespace: str) -> str:
    """What all answers go through, where a broker has such a thing."""
    return f"{namespace}:{VERSION}:answers"


def worker_channel(namespace: str, name: str) -> str:
    """Where a worker hears answers."""
    return f"{namespace}:{VERSION}:worker:{name}"


def is_worker_channel(namespace: str, channel: str) -> bool:
    return channel.startswith(worker_channel(namespace, "")) and _is_name(channel)


def is_gateway_channel(namespace: str, channel: str) -> bool:
    return channel.startswith(gateway_channel(namespace, "")) and _is_name(channel)


def _is_name(channel: str) -> bool:
    return len(channel) <= MOST_CHANNEL and channel.isascii()
