"""A webhook receiver that does as little as one can: every request is counted and answered 200.

Prints its port. `GET` answers with the count, and is not counted.
"""

import asyncio
import socket
import sys
from typing import Any

import uvloop

from gnomon.bench.wire import whole_head

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_BACKLOG = 4096


class Receiver(asyncio.Protocol):
    """One connection of a client that waits for each answer before it sends the next request."""

    count = 0

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
            text = str(Receiver.count).encode()
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)
            )
        else:
            Receiver.count += 1
            self._transport.write(_OK)


async def main() -> None:
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
