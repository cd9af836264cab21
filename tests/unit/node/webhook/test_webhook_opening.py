"""Opening connections of webhooks where it goes wrong: nothing is left over, and the right error is
told."""

import asyncio
import errno
import os
import resource
import select
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest
from aiohappyeyeballs import AddrInfoType
from tests.unit.api.raw_server import PLAIN, called, calling
from tests.unit.node.webhook.misbehaving import receiving, request
from tests.waiting import eventually

from gnomon.access.addresses import AddressGuard
from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets.http import HttpCaller
from gnomon.node.run.targets.webhook import connections
from gnomon.node.run.targets.webhook.connection import WebhookConnection
from gnomon.node.run.targets.webhook.request import ServerOrigin

HOST = "hooks.example"


@contextmanager
def resetting() -> Iterator[tuple[int, threading.Semaphore]]:
    """A port where every connection is taken, and reset once that is asked for."""
    wanted = threading.Semaphore(0)

    def serve() -> None:
        with suppress(OSError):
            while True:
                taken, _ = listening.accept()
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                wanted.acquire(timeout=10)
                taken.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], wanted
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_connections_that_are_reset_at_once_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reset comes when the socket is connected, and before anybody has heard of that."""
    connect = connections.WebhookConnections._connect

    async def connect_late(
        self: connections.WebhookConnections,
        connection: WebhookConnection,
        made: socket.socket,
        origin: ServerOrigin,
    ) -> None:
        wanted.release()
        until = select.poll()
        until.register(made, 0)  # which is when it has ended
        assert until.poll(10_000)
        await connect(self, connection, made, origin)

    monkeypatch.setattr(connections.WebhookConnections, "_connect", connect_late)
    with resetting() as (port, wanted):
        async with calling() as caller:
            for _ in range(200):
                assert (await called(caller, f"http://127.0.0.1:{port}/")).unreachable

            async def forgotten() -> bool:
                return not caller._connections._open

            await eventually(forgotten, 2)


def names(*addresses: str) -> Resolver:
    return Resolver(SystemClock(), lambda _: [Found(socket.AF_INET, 0, each) for each in addresses])


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize(
    "addresses", [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")], ids=["first", "last"]
)
async def test_a_bad_moment_of_one_address_is_not_the_refusal_of_another(
    addresses: tuple[str, str],
) -> None:
    async def serve(_: int, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no TLS at the moment\r\n")
        await writer.drain()

    guard = AddressGuard(["127.0.0.1/32"])
    async with (
        receiving(serve) as receiver,
        HttpCaller(SystemClock(), None, 10, lambda _: guard, names(*addresses)) as caller,
    ):
        outcome = await called(caller, f"https://{HOST}:{receiver.port}/")
        assert receiver.connections == 1
    assert (outcome.retryable, outcome.uncalled, outcome.unreachable) == (True, False, True)
    assert "not public" not in (outcome.error or "")


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[int, asyncio.Event, asyncio.Event]]:
    """A port that takes a connection and never says a word, with when the first has begun and
    ended."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def serve(_: int, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        begun.set()
        with suppress(ConnectionError):
            await reader.read()
        ended.set()

    async with receiving(serve) as receiver:
        yield receiver.port, begun, ended


@pytest.mark.usefixtures("authority")
async def test_closing_ends_connections_that_are_being_opened() -> None:
    found = names("127.0.0.1", "127.0.0.1")
    async with silent() as (port, begun, ended), asyncio.timeout(10):
        async with HttpCaller(SystemClock(), None, 10, names=found) as caller:
            trying = asyncio.create_task(called(caller, f"https://{HOST}:{port}/"))
            await begun.wait()
        outcome = await trying
        assert (outcome.kind, outcome.retryable) == (OutcomeKind.FAILED, True)
        assert "closed" in (outcome.error or "")
        await ended.wait()
        assert not caller._connections._open


async def test_after_closing_nothing_is_opened() -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(PLAIN)

    async with receiving(serve) as receiver:
        async with calling() as caller:
            pass
        outcome = await called(caller, receiver.url)
        assert (outcome.kind, outcome.retryable) == (OutcomeKind.FAILED, True)
        assert (receiver.connections, caller._connections._open) == (0, set())


class _ClosedBefore(socket.socket):
    """What older loops leave behind: they close what a socket stands for without telling it. Here
    the first who closes it hears of that."""

    was_told = False

    def close(self) -> None:
        super().close()
        if not self.was_told:
            self.was_told = True
            raise OSError(errno.EBADF, "Bad file descriptor")


@pytest.mark.usefixtures("authority")
async def test_a_socket_that_cannot_be_closed_hides_no_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make(sockets: connections._GuardedSockets, info: AddrInfoType) -> socket.socket:
        made = _ClosedBefore(*info[:3])
        sockets.made[made] = info
        return made

    monkeypatch.setattr(connections._GuardedSockets, "make", make)
    async with silent() as (port, begun, _), calling() as caller:
        trying = asyncio.create_task(called(caller, f"https://127.0.0.1:{port}/"))
        await begun.wait()
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying


@contextmanager
def no_more_files() -> Iterator[None]:
    """Of this process."""
    next_one = os.dup(0)
    os.close(next_one)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_files_nothing_is_said_about_the_host() -> None:
    async with calling() as caller:
        with no_more_files():
            outcome = await called(caller, "http://127.0.0.1:9/")
    assert (outcome.uncalled, outcome.retryable, outcome.unreachable) == (True, True, False)
    assert "Too many open files" in (outcome.error or "")
