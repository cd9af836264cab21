"""Webhooks over TLS: a server that cannot show who it is gets nothing."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.unit.api.raw_server import PLAIN, called
from tests.unit.node.webhook.misbehaving import presented
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets.http import HttpCaller

HOST = "hooks.example"


class Receiver:
    """Answers over TLS; without a context it speaks plainly."""

    def __init__(self) -> None:
        self.requests = 0
        self.connections = 0
        self.protocols: list[str | None] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            tls = writer.get_extra_info("ssl_object")
            if tls is None:
                self.requests += (await reader.read(1000)).startswith(b"POST ")
                writer.write(b"HTTP/1.1 400 What\r\n\r\n")
                return
            self.protocols.append(tls.selected_alpn_protocol())
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests += head.startswith(b"POST ")
                await reader.readexactly(2)
                writer.write(PLAIN)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(
    context: ssl.SSLContext | None, address: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Receiver]:
    made = Receiver()
    server = await asyncio.start_server(made.serve, address, port, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@asynccontextmanager
async def calling(*addresses: str) -> AsyncIterator[HttpCaller]:
    """Every name leads to these addresses."""
    found = [Found(socket.AF_INET, 0, each) for each in addresses or ("127.0.0.1",)]
    names = Resolver(SystemClock(), lambda _: found)
    async with HttpCaller(SystemClock(), None, 10, names=names) as caller:
        yield caller


def assert_not_connected(outcome: Outcome, why: str) -> None:
    assert (outcome.kind, outcome.unreachable) == (OutcomeKind.FAILED, True)
    assert outcome.retryable
    assert (outcome.error or "").startswith(f"NotConnected: {HOST}:")
    assert why in (outcome.error or "")


@pytest.mark.parametrize("host", [HOST, f"{HOST}.", "127.0.0.1"])
async def test_a_server_that_shows_its_name_is_called_on_one_connection(
    authority: Authority, tmp_path: Path, host: str
) -> None:
    context = presented(authority, tmp_path / "own", HOST, "127.0.0.1")
    async with receiving(context) as receiver, calling() as caller:
        for _ in range(3):
            outcome = await called(caller, f"https://{host}:{receiver.port}/")
            assert (outcome.kind, outcome.response_body) == (OutcomeKind.SUCCEEDED, "ok")
        assert (receiver.requests, receiver.connections) == (3, 1)
        assert receiver.protocols == ["http/1.1"]


async def test_a_certificate_of_another_name_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    context = presented(authority, tmp_path / "own", "other.example")
    async with receiving(context) as receiver, calling() as caller:
        outcome = await called(caller, f"https://{HOST}:{receiver.port}/")
        assert_not_connected(outcome, "Hostname mismatch")
        assert receiver.requests == 0


@pytest.mark.usefixtures("authority")
async def test_a_certificate_of_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    context = presented(stranger, tmp_path / "own", HOST)
    async with receiving(context) as receiver, calling() as caller:
        outcome = await called(caller, f"https://{HOST}:{receiver.port}/")
        assert_not_connected(outcome, "CERTIFICATE_VERIFY_FAILED")
        assert receiver.requests == 0


@pytest.mark.usefixtures("authority")
async def test_a_server_without_tls_is_sent_nothing() -> None:
    async with receiving(None) as receiver, calling() as caller:
        outcome = await called(caller, f"https://{HOST}:{receiver.port}/")
        assert_not_connected(outcome, "")
        assert receiver.requests == 0


async def test_another_address_may_have_a_better_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    wrong = presented(authority, tmp_path / "wrong", "other.example")
    right = presented(authority, tmp_path / "right", HOST)
    async with receiving(right) as good, receiving(wrong, "127.0.0.2", good.port) as bad:
        for addresses in (("127.0.0.2", "127.0.0.1"), ("127.0.0.1", "127.0.0.2")):
            async with calling(*addresses) as caller:
                outcome = await called(caller, f"https://{HOST}:{good.port}/")
                assert outcome.kind is OutcomeKind.SUCCEEDED
        async with calling("127.0.0.2", "127.0.0.2") as caller:
            assert_not_connected(
                await called(caller, f"https://{HOST}:{good.port}/"), "Hostname mismatch"
            )
        assert bad.requests == 0
        assert good.requests == 2


@pytest.mark.usefixtures("authority")
async def test_a_call_that_is_cancelled_while_it_connects_leaves_nothing_open() -> None:
    """The server takes the connection, and never says a word."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        begun.set()
        with suppress(ConnectionError):
            await reader.read()
        ended.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, calling() as caller:
        trying = asyncio.create_task(called(caller, f"https://{HOST}:{port}/"))
        await begun.wait()
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying

        async def over() -> bool:
            return ended.is_set() and not caller._connections._open

        await eventually(over)
