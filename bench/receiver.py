"""A webhook receiver that does as little as one can: every request is counted and answered 200.

Answers come at once, or after as many seconds as its argument says. Prints its port. `GET` answers
with how many came, and how many were under way at once, and is not counted.
"""

import asyncio
import socket
import sys
from typing import Any

import uvloop

from gnomon.bench.wire import whole_head
from gnomon.file_limit import raise_file_limit

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_BACKLOG = 4096


class Receiver(asyncio.Protocol):
    """One connection of a client that waits for each answer before it sends the next request."""

    count = 0
    open = 0
    most = 0
    hold = 0.0

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = whole_head(self._buffer)
        if head is None:
            return
        self._buffer = b""
        if head.startswith(b"GET "):
            text = b"%d %d" % (Receiver.count, Receiver.most)
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)
            )
        else:
            Receiver.count += 1
            Receiver.open += 1
            Receiver.most = max(Receiver.most, Receiver.open)
            if Receiver.hold:
                asyncio.get_running_loop().call_later(Receiver.hold, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        Receiver.open -= 1
        self._transport.write(_OK)


async def main() -> None:
    raise_file_limit()
    Receiver.hold = float(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    server = await asyncio.get_running_loop().create_server(
        Receiver, sock=listener, backlog=_BACKLOG
    )
    print(listener.getsockname()[1], flush=True)
    async with server:
        # Whoever started this holds the other end: at its end, however it comes, so do we.
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
