"""Which connections are closed for new ones: none that a request or an answer needs."""

import select
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.waiting import eventually, eventually_sync

from gnomon.api.connections import (
    SLOW_SECONDS,
    Client,
    Connections,
    Idleness,
    Use,
    idleness,
)
from gnomon.clock import SystemClock

MOST = 16
_LITTLE = 4096  # bytes that a socket may hold; the system makes it a little more

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere none are closed so")


@pytest.mark.parametrize(
    ("use", "lag", "expected"),
    [
        (Use(sent_ago=0.9, received_ago=30, unread=0), 0.1, None),
        (Use(sent_ago=30, received_ago=1.1, unread=0), 0.1, Idleness.QUIET),
        (Use(sent_ago=4.9, received_ago=0.9, unread=0), 0.1, None),
        (Use(sent_ago=5.1, received_ago=0.9, unread=0), 0.1, Idleness.SENDS),
        # The answer is on its way.
        (Use(sent_ago=4.9, received_ago=30, unread=1), 0.1, None),
        (Use(sent_ago=5.1, received_ago=30, unread=1), 0.1, Idleness.DOES_NOT_READ),
        # The loop lags: what came since then may be a request.
        (Use(sent_ago=30, received_ago=2.9, unread=0), 3.0, None),
        (Use(sent_ago=30, received_ago=0.1, unread=0), 3.0, None),
        (Use(sent_ago=30, received_ago=3.1, unread=0), 3.0, Idleness.QUIET),
    ],
)
def test_when_a_connection_is_idle(use: Use, lag: float, expected: Idleness | None) -> None:
    assert idleness(use, lag) is expected


class Accepted:
    """Both ends of connections to one listener, as the server has accepted them."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.listener = self._kept(socket.create_server(("127.0.0.1", 0)))
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LITTLE)
        self.busy: set[Client] = set()

    def _kept(self, sock: socket.socket) -> socket.socket:
        return self._stack.enter_context(sock)

    def open(self, *, busy: bool = False) -> tuple[socket.socket, socket.socket]:
        """The end of the client, and that of the server."""
        client = self._kept(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LITTLE)
        client.bind(("127.0.0.1", 0))
        if busy:
            self.busy.add(name_of(client))
        client.connect(self.listener.getsockname())
        return client, self._kept(self.listener.accept()[0])

    @contextmanager
    def watched(self) -> Iterator[None]:
        with self._stack:
            connections = Connections(
                self.listener, MOST, SystemClock(), self.busy, lambda number: None
            )
            with connections.watched():
                yield


def name_of(client: socket.socket) -> Client:
    host, port = client.getsockname()
    return host, str(port)


def is_closed(client: socket.socket) -> bool:
    """Whether there is an end to what the server has sent."""
    while select.select([client], [], [], 0)[0]:
        if not client.recv(_LITTLE):
            return True
    return False


def closed(client: socket.socket) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return is_closed(client)

    return look


@linux_only
async def test_an_answer_that_is_being_read_is_not_cut() -> None:
    accepted = Accepted()
    with accepted.watched():
        reading, server = accepted.open()
        server.setblocking(False)
        sent = 0
        while select.select([], [server], [], 0)[1]:
            sent += server.send(b"x" * _LITTLE)
        # It pauses, and is the longest idle of all.
        quiet = [accepted.open()[0] for _ in range(MOST)]

        async def there_is_room() -> bool:
            return sum(is_closed(client) for client in quiet) >= MOST // 8

        await eventually(there_is_room)
        # It goes on, and so does the server.
        reading.settimeout(SLOW_SECONDS)
        while sent:
            sent -= len(reading.recv(sent))
        server.send(b"the rest")
        assert reading.recv(_LITTLE) == b"the rest"


@linux_only
async def test_a_request_that_waits_for_the_loop_is_not_cut() -> None:
    accepted = Accepted()
    with accepted.watched():
        waiting, server = accepted.open(busy=True)
        other, others_server = accepted.open(busy=True)
        for _ in range(MOST - MOST // 8):
            accepted.open(busy=True)
        silent, _ = accepted.open()
        await eventually(closed(silent))

        # From here on the loop does not run, and so cannot know which requests are under way.
        server.send(b"an answer")
        waiting.send(b"the next request")
        others_server.send(b"an answer")
        accepted.busy -= {name_of(waiting), name_of(other)}
        eventually_sync(lambda: is_closed(other))
        assert not is_closed(waiting)

        # It runs again, and has begun no request on that connection.
        await eventually(closed(waiting))
