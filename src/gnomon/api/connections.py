"""Keeps room for new connections: where most places are taken, the longest idle ones are closed.

The HTTP server stops accepting once all places are taken, and whoever connects then waits, a
health check too. It offers no way to close a connection from outside. But the sockets are files
of this process, and the kernel knows how long each of them has been idle.
"""

import asyncio
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import structlog
from litestar.types import Scope

from gnomon.clock import Clock

SPARED_SECONDS = 1.0  # a connection that was in use so shortly ago is about to be used again
SLOW_SECONDS = 5.0  # one that sends, but has not completed a request for so long, is not spared
TELL_SECONDS = 10.0  # between two lines in the log
_ACCEPTED_A_SECOND = 20_000  # more than the server manages
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 0.5
_SENT_AGO, _RECEIVED_AGO = 44, 52  # in struct tcp_info of Linux, in milliseconds

log = structlog.get_logger("gnomon.api")

Client = tuple[str, str]  # its host and port


def client_of(scope: Scope) -> Client:
    """Who is at the other end of the connection that a request came over."""
    host, port = scope["client"] or ("", 0)
    return host, str(port)


class _Idle(NamedTuple):
    """A connection without a request under way. Those to close first sort first."""

    spared: bool
    newness: float
    file: int
    client: Client


class Connections:
    """The connections that one listener has accepted. At most `most` are open at once."""

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        clock: Clock,
        busy: Container[Client],  # those with a request under way
        end_slow_bodies: Callable[[int], object],  # so many of them; called in the loop
    ) -> None:
        self.most = most
        self._busy = busy
        self._family, self._port = listener.family, listener.getsockname()[1]
        self._high, self._low = most - most // 8, most - most // 4
        self._end_slow_bodies = end_slow_bodies
        self._seen: set[Client] = set()  # in the look before this one
        self._clock = clock
        self._closed, self._told_at = 0, -TELL_SECONDS
        self._stop = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Make room in a thread: a busy loop is when it is needed most."""
        if sys.platform != "linux":  # elsewhere idle connections are closed by their time alone
            yield
            return
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._run, args=(loop,), name="connections", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = _MOST_PAUSE
        while not self._stop.wait(pause):
            try:
                files = _files()
                if len(files) > self._high:
                    self._make_room(files, loop)
            except Exception:  # whoever connects must not pay for it; the next look may succeed
                log.exception("cannot make room for connections")
                continue
            room = self.most - len(files)
            pause = min(max(room / _ACCEPTED_A_SECOND, _LEAST_PAUSE), _MOST_PAUSE)
            self._tell()

    def _make_room(self, files: Iterable[int], loop: asyncio.AbstractEventLoop) -> None:
        seen: set[Client] = set()
        idle: list[_Idle] = []
        for file in files:
            if (found := self._connection(file)) is None:
                continue
            sock, client = found
            seen.add(client)
            with sock:
                # A new one may have waited long to be accepted, and be about to be served.
                if client in self._seen and client not in self._busy:
                    idle += _idle(file, sock, client)
        self._seen, number = seen, len(seen)
        if number <= self._high:
            return
        closed = sum(self._close(each) for each in sorted(idle)[: number - self._low])
        if number - closed > self._high:
            loop.call_soon_threadsafe(self._end_slow_bodies, number - closed - self._low)
        self._closed += closed

    def _tell(self) -> None:
        now = self._clock.monotonic()
        if self._closed and now >= self._told_at + TELL_SECONDS:
            log.warning("closed idle connections to make room for new ones", closed=self._closed)
            self._closed, self._told_at = 0, now

    def _close(self, idle: _Idle) -> bool:
        if (found := self._connection(idle.file)) is None:
            return False
        sock, client = found
        with sock:
            # Meanwhile the file may have become another one, or a request may have begun.
            if client != idle.client or client in self._busy:
                return False
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return False  # it has just ended
            return True

    def _connection(self, file: int) -> tuple[socket.socket, Client] | None:
        """A file of this process and the client at its other end, where it is a connection to our
        port. What is given is a copy: whatever becomes of the file, it stays what it is."""
        try:
            copy = os.dup(file)
        except OSError:
            return None  # it has just been closed
        try:
            sock = socket.socket(self._family, socket.SOCK_STREAM, 0, fileno=copy)
        except OSError:
            os.close(copy)
            return None  # no socket
        client = self._client(sock)
        if client is None:
            sock.close()
            return None
        return sock, client

    def _client(self, sock: socket.socket) -> Client | None:
        try:
            name = sock.getsockname()
            if not isinstance(name, tuple) or name[1] != self._port:
                return None
            host, port = sock.getpeername()[:2]
        except OSError:
            return None
        return host.partition("%")[0], str(port)


def _files() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - ten thousand paths


def _idle(file: int, sock: socket.socket, client: Client) -> tuple[_Idle, ...]:
    """The connection, unless it is in use."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
    except OSError:
        return ()
    # Where nothing was sent or received yet, both count from the start of the connection.
    sent, received = (
        struct.unpack_from("=I", info, at)[0] / 1000 for at in (_SENT_AGO, _RECEIVED_AGO)
    )
    spared = received < SPARED_SECONDS
    if sent < (SLOW_SECONDS if spared else SPARED_SECONDS):
        return ()
    return (_Idle(spared, -sent, file, client),)
