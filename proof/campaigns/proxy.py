"""A TCP proxy between one process and PostgreSQL, which plays a broken network.

Faults act on the connections that are open and on those that come: cut, delayed, swallowed, or
cut at the worst moment, when a commit has been made and the word of it is on its way.
"""

import asyncio
import socket
import struct
from collections import deque
from typing import Self

from proof.campaigns.backend import Answers, Asked

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_CONNECT_SECONDS = 5.0


class Proxy:
    """Listens on a loopback port of its own from `start` to `close`. Everything but these is
    called on the loop that it was started on."""

    def __init__(self, target: tuple[str, int], *, of_postgres: bool = True) -> None:
        """`of_postgres`: only answers that tell of a commit are lost; else any."""
        self.port = 0
        self.of_postgres = of_postgres
        self.lost_answers = 0  # answers thrown away, ever
        self.delayed = 0  # pieces held up, ever
        self.swallowed = 0  # pieces that fell into the black hole, ever
        self._target = target
        self._links: set[_Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._delay = 0.0
        self._open = True
        self._to_lose = 0
        self._about = b""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accepted, "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        if self._connecting:
            await asyncio.wait(self._connecting)

    @property
    def connections(self) -> int:
        return len(self._links)

    def retarget(self, host: str, port: int) -> None:
        """Where connections that come from now on lead to."""
        self._target = host, port

    def cut(self) -> int:
        """Reset every connection, towards both sides. Gives how many there were."""
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    def delay(self, seconds: float) -> None:
        """What is sent, either way, arrives so much later."""
        self._delay = seconds

    def black_hole(self) -> None:
        """Nothing arrives any more, not even that a connection has ended."""
        self._open = False

    def let_through(self) -> int:
        """End the black hole. What fell into it is gone, and with it the connections that it
        belonged to; gives how many those were."""
        self._open = True
        torn = [link for link in self._links if link.torn]
        for link in torn:
            link.reset()
        return len(torn)

    def lose_answers(self, count: int, about: str = "") -> None:
        """Throw away the next so many answers that tell of a commit, and reset their connections.
        `about`: only of transactions one of whose statements has this text. 0 ends it."""
        self._to_lose, self._about = count, about.encode()

    def _accepted(self) -> "_End":
        return _Link(self).client

    def _connect(self, link: "_Link") -> None:
        self._links.add(link)
        connecting = asyncio.get_running_loop().create_task(self._reach(link))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _reach(self, link: "_Link") -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.create_connection(lambda: link.server, *self._target)
        except (OSError, TimeoutError):
            link.reset()

    def _loses(self, told: list[bytes] | None) -> bool:
        if not self.of_postgres:
            told = [self._about]
        if told is None or not self._to_lose or not any(self._about in text for text in told):
            return False
        self._to_lose -= 1
        self.lost_answers += 1
        return True


class _Link:
    """A client's connection, and the one to the server that was made for it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.torn = False  # something of it was swallowed
        self.client, self.server = _End(self), _End(self)
        self._asked = Asked()
        self._answers = Answers(self._asked)

    def made(self, end: "_End") -> None:
        if end is self.client:
            self.proxy._connect(self)
        elif self not in self.proxy._links:  # the client went away meanwhile
            end.abort()

    def received(self, end: "_End", data: bytes) -> None:
        if not self.proxy._open:
            self.proxy.swallowed += 1
            self.torn = True
        elif end is self.client:
            if self.proxy.of_postgres:
                self._asked.feed(data)
            self.server.send(data)
        else:
            self._answered(data)

    def _answered(self, data: bytes) -> None:
        pieces = self._answers.feed(data) if self.proxy.of_postgres else [(data, None)]
        for piece, told in pieces:
            if self.proxy._loses(told):
                self.reset()
                return
            self.client.send(piece)

    def ended(self, end: "_End") -> None:
        if self.proxy._open:
            # A client that said goodbye is heard; all else ends as abruptly here as there.
            self._drop()
            other = self.server if end is self.client else self.client
            other.finish()
        else:
            self.torn = True

    def reset(self) -> None:
        self._drop()
        self.client.abort()
        self.server.abort()

    def _drop(self) -> None:
        self.proxy._links.discard(self)


class _End(asyncio.Protocol):
    """One side of a link. What is sent before it is connected, waits."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._queue: deque[tuple[float, bytes]] = deque()  # with the time to send it
        self._timer: asyncio.TimerHandle | None = None
        self._gone = False
        self._finishing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        sock = transport.get_extra_info("socket")
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport
        self._link.made(self)
        self._send_due()

    def data_received(self, data: bytes) -> None:
        self._link.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._link.ended(self)

    def send(self, data: bytes) -> None:
        delay = self._link.proxy._delay
        if self._transport is not None and not self._queue and not delay:
            self._transport.write(data)
            return
        if delay:
            self._link.proxy.delayed += 1
        self._queue.append((asyncio.get_running_loop().time() + delay, data))
        self._send_due()

    def _send_due(self) -> None:
        if self._transport is None or self._gone:
            return
        loop = asyncio.get_running_loop()
        while self._queue and self._queue[0][0] <= loop.time():
            self._transport.write(self._queue.popleft()[1])
        if self._queue and self._timer is None:
            self._timer = loop.call_at(self._queue[0][0], self._wake)
        if not self._queue and self._finishing:
            self._transport.close()

    def _wake(self) -> None:
        self._timer = None
        self._send_due()

    def finish(self) -> None:
        """Close, once all that is queued has been sent."""
        self._finishing = True
        self._send_due()

    def abort(self) -> None:
        self._queue.clear()
        if self._transport is not None and not self._gone:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
