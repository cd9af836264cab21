"""Keeps room for new connections: closes the longest idle ones when most places are taken, and
those of an address that has more than its limit.

The HTTP server stops accepting once all places are taken, and new clients wait then, health checks
too. It offers no way to close a connection from outside. But the sockets are files of this process,
and the kernel knows how long each of them has been idle.
"""

import asyncio
import os
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

import structlog
from litestar.types import Scope

from gnomon.access.client_address import ClientAddresses
from gnomon.clock import Clock

SPARED_SECONDS = 1.0  # a connection used within this time is probably used again soon
SLOW_SECONDS = 5.0  # a connection in use that has made no progress for so long may be closed
TELL_SECONDS = 10.0  # between two lines in the log
_ACCEPTED_A_SECOND = 20_000  # more than the server manages
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 0.5
_CROWDED_PAUSE = 0.1
_MOST_TIME = 0.05  # the part of the thread's time that may go into looking at connections
_MOST_LOOK_PAUSE = 2.0
_SENT_AGO, _RECEIVED_AGO = 44, 52  # in struct tcp_info of Linux, in milliseconds
_RECEIVED_BYTES, _INFO_BYTES = 128, 136

log = structlog.get_logger("gnomon.api")

Client = tuple[str, str]  # its host and port


def client_of(scope: Scope) -> Client:
    """The peer of the connection that a request came over."""
    host, port = scope["client"] or ("", 0)
    return host, str(port)


class Idleness(IntEnum):
    """Why a connection may be closed, in the order in which they are."""

    QUIET = 0
    SENDS = 1  # it sends, but has completed no request for SLOW_SECONDS
    DOES_NOT_READ = 2  # the client has not read its answer for SLOW_SECONDS


class ConnectionUse(NamedTuple):
    """The kernel's figures of a connection that has no request in progress."""

    sent_ago: float  # or opened, where nothing was sent yet
    received_ago: float
    unread: int  # bytes of an answer that the client has not taken yet
    silent: bool = False  # nothing was ever received


def idleness(use: ConnectionUse, lag: float) -> Idleness | None:
    """None: it is in use. `lag`: seconds of received data that the loop may not have seen yet."""
    if use.unread:  # the server is writing, though the application has answered
        return Idleness.DOES_NOT_READ if use.sent_ago >= SLOW_SECONDS else None
    if use.received_ago <= lag and lag >= SPARED_SECONDS:
        return None  # it may be a request that the loop has not seen yet
    if use.received_ago < SPARED_SECONDS:
        return Idleness.SENDS if use.sent_ago >= SLOW_SECONDS else None
    return Idleness.QUIET if use.sent_ago >= SPARED_SECONDS else None


class _Idle(NamedTuple):
    """A connection that may be closed; sorts by which to close first."""

    why: Idleness
    newness: float
    file: int
    client: Client


class _Look(NamedTuple):
    """The connections at one moment."""

    number: int
    idle: list[_Idle]
    silent: list[_Idle]  # never sent anything; those open for long are in `idle`, too
    of_address: Counter[str]  # connections by address, of the addresses that have a limit


class AddressLimit(NamedTuple):
    """How many connections one address may have open."""

    most: int
    addresses: ClientAddresses

    def group(self, host: str) -> str | None:
        """The group a peer is counted in; None: it has no limit. A proxy has those of many."""
        peer = self.addresses.peer(host)
        return None if peer.unlimited or peer.trusted else peer.group


class Connections:
    """The connections that one listener has accepted. At most `most` are open at once."""

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        clock: Clock,
        busy: Container[Client],  # clients with a request in progress
        end_slow_bodies: Callable[[int], object],  # takes how many; called in the loop
        limit: AddressLimit,
        on_closed: Callable[[str, int], None],  # why, and how many
    ) -> None:
        self.most = most
        self._busy = busy
        self._family, self._port = listener.family, listener.getsockname()[1]
        self._high, self._low = most - most // 8, most - most // 4
        self._end_slow_bodies = end_slow_bodies
        self._limit = limit
        self._crowded: frozenset[str] = frozenset()  # addresses still beyond it
        self._on_closed = on_closed
        self._were_idle: set[tuple[Client, Idleness]] = set()  # at the previous look
        self._heard_at = clock.monotonic()  # the loop has seen what was received before
        self._asked_at: float | None = None  # when the loop was asked; None: it has answered
        self._clock = clock
        self._closed: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()
        self._told_at = -TELL_SECONDS
        self._stop = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Makes room in a thread, because it is needed most while the loop is busy."""
        if sys.platform != "linux":  # elsewhere only the idle timeout closes connections
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

    def is_crowded(self, host: str) -> bool:
        """Whether an address is over its limit even after its idle connections were closed."""
        return bool(self._crowded) and self._limit.group(host) in self._crowded

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = _MOST_PAUSE
        while not self._stop.wait(pause):
            try:
                self._ask(loop)
                began = self._clock.monotonic()
                files = _files()
                if len(files) > min(self._high, self._limit.most):
                    self._close_some(files, loop)
                else:
                    self._crowded = frozenset()
                self._tell()
            except Exception:  # clients must not suffer from it; the next look may succeed
                log.exception("cannot make room for connections")
                continue
            pause = self._pause(self.most - len(files), self._clock.monotonic() - began)

    def _pause(self, room: int, took: float) -> float:
        pause = min(max(room / _ACCEPTED_A_SECOND, _LEAST_PAUSE), _MOST_PAUSE)
        if room < self.most - self._high:
            return pause
        if self._crowded:
            pause = min(pause, _CROWDED_PAUSE)
        return max(pause, min(took / _MOST_TIME, _MOST_LOOK_PAUSE))

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        """Asks the loop for a sign: it has then seen all that it was handed before."""
        if self._asked_at is None:
            self._asked_at = self._clock.monotonic()
            loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        assert self._asked_at is not None, "it is asked once, and tells once"
        self._heard_at, self._asked_at = self._asked_at, None

    def _close_some(self, files: Iterable[int], loop: asyncio.AbstractEventLoop) -> None:
        look = self._look(files)
        # A request that just begins, or an answer that is about to be written, does not show: close
        # only what was idle at the previous look, too.
        before, self._were_idle = self._were_idle, {(each.client, each.why) for each in look.idle}
        idle = sorted(each for each in look.idle if (each.client, each.why) in before)
        left = look.number - self._close_crowded(look, idle)
        if left > self._high:
            self._make_room(left, idle, loop)

    def _close_crowded(self, look: _Look, idle: list[_Idle]) -> int:
        """Closes connections of addresses over their limit: first those that never sent anything,
        then the longest idle. The rest of the excess is in use, and closed with its next
        answer. Returns how many were closed."""
        over = look.of_address - Counter(dict.fromkeys(look.of_address, self._limit.most))
        if not over:
            self._crowded = frozenset()
            return 0
        closed = 0
        for each in dict.fromkeys((*sorted(look.silent), *idle)):
            group = self._limit.group(each.client[0])
            if group is not None and over[group] > 0 and self._close(each):
                over[group] -= 1
                closed += 1
        self._closed["address"] += closed
        self._crowded = frozenset(+over)
        return closed

    def _make_room(self, number: int, idle: list[_Idle], loop: asyncio.AbstractEventLoop) -> None:
        quiet = [each for each in idle if each.why is Idleness.QUIET]
        closed = self._close_all(quiet[: number - self._low])
        if number - closed > self._high:
            closed += self._close_all(idle[len(quiet) :][: number - closed - self._high])
        if number - closed > self._high:
            loop.call_soon_threadsafe(self._end_slow_bodies, number - closed - self._low)
        self._closed["idle"] += closed

    def _look(self, files: Iterable[int]) -> _Look:
        look = _Look(0, [], [], Counter())
        number = 0
        for file in files:
            if (found := self._connection(file)) is None:
                continue
            number += 1
            sock, client = found
            with sock:
                if (group := self._limit.group(client[0])) is not None:
                    look.of_address[group] += 1
                if client in self._busy or (use := _use(sock)) is None:
                    continue
                why = idleness(use, self._clock.monotonic() - self._heard_at)
                if why is not None:
                    look.idle.append(_Idle(why, -use.sent_ago, file, client))
                if use.silent:
                    look.silent.append(_Idle(Idleness.QUIET, -use.sent_ago, file, client))
        return look._replace(number=number)

    def _close_all(self, idle: Iterable[_Idle]) -> int:
        """Returns how many of them were closed."""
        return sum(self._close(each) for each in idle)

    def _tell(self) -> None:
        now = self._clock.monotonic()
        for reason, number in (+self._closed).items():
            self._on_closed(reason, number)
        self._untold += self._closed
        self._closed.clear()
        if now < self._told_at + TELL_SECONDS or not self._untold:
            return
        if idle := self._untold["idle"]:
            log.warning("closed idle connections to make room for new ones", closed=idle)
        if beyond := self._untold["address"]:
            log.warning(
                "closed connections of addresses that have more than address_connections",
                closed=beyond,
            )
        self._untold, self._told_at = Counter(), now

    def _close(self, idle: _Idle) -> bool:
        if (found := self._connection(idle.file)) is None:
            return False
        sock, client = found
        with sock:
            # Meanwhile the file number may have been reused, or a request may have begun.
            if client != idle.client or client in self._busy:
                return False
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return False  # it has just ended
            return True

    def _connection(self, file: int) -> tuple[socket.socket, Client] | None:
        """The socket behind a file of this process, and its client, if it is a connection to our
        port. The socket is a duplicate: it stays the same when the file number is reused."""
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


def _use(sock: socket.socket) -> ConnectionUse | None:
    import fcntl  # these exist on Unix only, and so does the caller
    import termios

    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        unread = struct.unpack("=i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0]
    except OSError:
        return None
    # Where nothing was sent or received yet, both count from the start of the connection.
    sent, received = (
        struct.unpack_from("=I", info, at)[0] / 1000 for at in (_SENT_AGO, _RECEIVED_AGO)
    )
    # Older kernels do not count bytes; then no connection counts as silent.
    counts = len(info) >= _INFO_BYTES
    silent = counts and struct.unpack_from("=Q", info, _RECEIVED_BYTES)[0] == 0
    return ConnectionUse(sent, received, unread, silent)
