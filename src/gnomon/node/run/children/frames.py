"""Messages between a node and its child processes, over two pipes.

A frame is its length and a message. The node trusts no child: a frame that is too long, or that is
none, is the end of it.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from gnomon.model.outcomes.outcome import Outcome
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import Progress
from gnomon.settings import OutputSettings

_PREFIX = 4  # bytes of the length
MAX_TO_NODE = 1024 * 1024
MAX_TO_CHILD = 256 * 1024 * 1024  # payloads have their own limit, which is lower


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The first frame: what the child is to be."""

    app: str  # module:attribute
    threads: int
    path: list[str]  # where modules are found
    parent: int  # the process id of the node
    silence_seconds: float  # after which the node must be taken for dead
    output: OutputSettings


class CallFrame(msgspec.Struct, frozen=True, tag=True):
    number: int
    delivery: Delivery
    payload: bytes | None
    trusted_until: float  # as in `Ping`


class Cancel(msgspec.Struct, frozen=True, tag=True):
    number: int


class Leave(msgspec.Struct, frozen=True, tag=True):
    """End by yourself: there will be no more calls."""


class Ping(msgspec.Struct, frozen=True, tag=True):
    """The node lives. The event loop of the child must answer."""

    trusted_until: float  # when its lease may be over (monotonic); handlers begin before that


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The app is loaded and running."""


class Unfit(msgspec.Struct, frozen=True, tag=True):
    """It cannot be."""

    reason: str


class Started(msgspec.Struct, frozen=True, tag=True):
    """Told before the function is called: from here on it may have had effects."""

    number: int


class Uncalled(msgspec.Struct, frozen=True, tag=True):
    """The function was not called, and will not be: the lease of the node may be over."""

    number: int


class Completing(msgspec.Struct, frozen=True, tag=True):
    """The function completes its run, or has failed to, in a transaction of its own."""

    number: int
    completed: bool


class Progressed(msgspec.Struct, frozen=True, tag=True):
    """The handler has said how far it is."""

    number: int
    progress: Progress


class Ended(msgspec.Struct, frozen=True, tag=True):
    number: int
    outcome: Outcome


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """The handler has ended with a CancelledError; or it was not called, if it was not started."""

    number: int
    where: str | None = None  # its stack when it was told to stop


class Left(msgspec.Struct, frozen=True, tag=True):
    """A call was cancelled, but goes on in its thread."""

    number: int
    where: str | None = None


class Returned(msgspec.Struct, frozen=True, tag=True):
    """One that went on in its thread has ended."""

    number: int


class Pong(msgspec.Struct, frozen=True, tag=True):
    """The event loop of the child makes progress."""


class Orphaned(msgspec.Struct, frozen=True, tag=True):
    """The last frame of a child that has not heard of its node for too long."""


ToChild = Hello | CallFrame | Cancel | Leave | Ping
ToNode = (
    Ready
    | Unfit
    | Started
    | Uncalled
    | Completing
    | Progressed
    | Ended
    | Cancelled
    | Left
    | Returned
    | Pong
    | Orphaned
)

M = TypeVar("M")

_encoder = msgspec.msgpack.Encoder()


class BadFrame(Exception):
    """Bytes that are no frame."""


def framed(message: ToChild | ToNode) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(_PREFIX, "big") + body


class Frames(Generic[M]):
    """Takes bytes as they come, gives whole messages."""

    def __init__(self, decoder: "msgspec.msgpack.Decoder[M]", longest: int) -> None:
        self._decoder = decoder
        self._longest = longest
        self._left = bytearray()

    def feed(self, data: bytes) -> Iterator[M]:
        """Raises BadFrame where it is none."""
        self._left += data
        while len(self._left) >= _PREFIX:
            end = _PREFIX + int.from_bytes(self._left[:_PREFIX], "big")
            if end > _PREFIX + self._longest:
                raise BadFrame(f"a frame of {end} bytes; {self._longest} are the most")
            if len(self._left) < end:
                return
            body = bytes(self._left[_PREFIX:end])
            del self._left[:end]
            try:
                message = self._decoder.decode(body)
            except msgspec.MsgspecError as error:
                raise BadFrame(str(error)) from error
            yield message


def frames_to_node() -> "Frames[ToNode]":
    return Frames(msgspec.msgpack.Decoder(ToNode), MAX_TO_NODE)


def frames_to_child() -> "Frames[ToChild]":
    return Frames(msgspec.msgpack.Decoder(ToChild), MAX_TO_CHILD)
