"""Which connections are closed for new ones: none that a request or an answer needs."""

import select
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.waiting import eventually, eventually_sync

from gnomon.access.client_address import FORWARDED, ClientAddresses
from gnomon.api.http.bounds.connections import (
    SLOW_SECONDS,
    AddressLimit,
    Client,
    Connections,
    ConnectionUse,
    Idleness,
    idleness,
)
from gnomon.clock import SystemClock

MOST = 16
_LITTLE = 4096  # bytes that a socket may hold; the system makes it a little more

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere none are closed so")


@pytest.mark.parametrize(
    ("use", "lag", "expected"),
    [
        (ConnectionUse(sent_ago=0.9, received_ago=30, unread=0), 0.1, None),
        (ConnectionUse(sent_ago=30, received_ago=1.1, unread=0), 0.1, Idleness.QUIET),
        (ConnectionUse(sent_ago=4.9, received_ago=0.9, unread=0), 0.1, None),
        (ConnectionUse(sent_ago=5.1, received_ago=0.9, unread=0), 0.1, Idleness.SENDS),
        # The answer is on its way.
        (ConnectionUse(sent_ago=4.9, received_ago=30, unread=1), 0.1, None),
        (ConnectionUse(sent_ago=5.1, received_ago=30, unread=1), 0.1, Idleness.DOES_NOT_READ),
        # The loop lags: what came since then may be a request.
        (ConnectionUse(sent_ago=30, received_ago=2.9, unread=0), 3.0, None),
        (ConnectionUse(sent_ago=30, received_ago=0.1, unread=0), 3.0, None),
        (ConnectionUse(sent_ago=30, received_ago=3.1, unread=0), 3.0, Idleness.QUIET),
    ],
)
def test_when_a_connection_is_idle(
    use: ConnectionUse, lag: float, expected: Idleness | None
) -> None:
    assert idleness(use, lag) is expected


class Accepted:
    """Both ends of connections to one listener, as the server has accepted them."""

    trusted, unlimited = ("127.0.0.8/32",), ("127.0.0.9/32",)

    def __init__(self, of_address: int = 1000) -> None:
        self.of_address = of_address
        self.reasons: set[str] = set()
        self._stack = ExitStack()
        self.listener = self._kept(socket.create_server(("127.0.0.1", 0)))
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LITTLE)
        self.busy: set[Client] = set()

    def closed(self, reason: str, number: int) -> None:
        assert number > 0
        self.reasons.add(reason)

    def _kept(self, sock: socket.socket) -> socket.socket:
        return self._stack.enter_context(sock)

    def open(
        self, *, busy: bool = False, source: str = "127.0.0.1"
    ) -> tuple[socket.socket, socket.socket]:
        """The end of the client, and that of the server."""
        client = self._kept(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LITTLE)
        client.bind((source, 0))
        if busy:
            self.busy.add(name_of(client))
        client.connect(self.listener.getsockname())
        return client, self._kept(self.listener.accept()[0])

    @contextmanager
    def watched(self) -> Iterator[Connections]:
        with self._stack:
            connections = Connections(
                self.listener,
                MOST,
                SystemClock(),
                self.busy,
                lambda number: None,
                AddressLimit(
                    self.of_address, ClientAddresses(self.trusted, self.unlimited, FORWARDED)
                ),
                self.closed,
            )
            with connections.watched():
                yield connections


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


@linux_only
async def test_what_an_address_has_beyond_its_limit_is_closed_the_silent_first() -> None:
    accepted = Accepted(of_address=2)
    with accepted.watched():
        in_use, _ = accepted.open(busy=True, source="127.0.0.2")
        spoken, _ = accepted.open(source="127.0.0.2")
        spoken.send(b"half a request")
        others = [accepted.open(source="127.0.0.3")[0] for _ in range(2)]
        unlimited = [accepted.open(source="127.0.0.9")[0] for _ in range(3)]
        a_proxys = [accepted.open(source="127.0.0.8")[0] for _ in range(3)]
        silent = [accepted.open(source="127.0.0.2")[0] for _ in range(2)]

        async def are_closed() -> bool:
            return all(map(is_closed, silent))

        await eventually(are_closed)
        assert not any(map(is_closed, [in_use, spoken, *others, *unlimited, *a_proxys]))
        assert accepted.reasons == {"address"}


@linux_only
async def test_where_all_are_in_use_the_address_is_told_with_its_next_answers() -> None:
    accepted = Accepted(of_address=2)
    with accepted.watched() as connections:
        in_use = [accepted.open(busy=True, source="127.0.0.2")[0] for _ in range(3)]

        async def is_crowded() -> bool:
            return connections.is_crowded("127.0.0.2")

        async def is_not() -> bool:
            return not connections.is_crowded("127.0.0.2")

        await eventually(is_crowded)
        assert not connections.is_crowded("127.0.0.3")
        assert not any(map(is_closed, in_use))
        accepted.busy.clear()
        in_use[0].close()
        await eventually(is_not)
