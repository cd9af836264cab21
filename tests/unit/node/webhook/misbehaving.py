"""Receivers of webhooks that do what no HTTP library would, and calls to them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from tests.certificates import Authority
from tests.unit.api.raw_server import called, calling

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import Outcome
from gnomon.model.targets.target import HttpTarget
from gnomon.node.run.targets.http import HttpCaller
from gnomon.sdk.executing.context import TaskContext
from gnomon.testing.contracts.pipe import a_delivery

BIG = b'"' + b"x" * 8_000_000 + b'"'  # more than the buffers of both sides hold
OK = b"HTTP/1.1 200 OK\r\n"

Serve = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """Counts its connections, and who closed them: the number is that of the connection."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.connections = 0
        self.closed_by_us: list[int] = []
        self.port = 0
        self._transports: list[asyncio.WriteTransport] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self._transports.append(writer.transport)
        try:
            await self._serve(number, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed_by_us.append(number)
        finally:
            writer.close()

    async def end(self) -> None:
        """Leave nothing open, whatever lies in its buffers."""
        for each in self._transports:
            each.abort()
        for _ in range(3):
            await asyncio.sleep(0)  # the loop closes them


def presented(authority: Authority, folder: Path, *names: str) -> ssl.SSLContext:
    """The TLS of a server with a certificate for these names."""
    folder.mkdir(exist_ok=True)
    authority.sign(folder, *names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@asynccontextmanager
async def receiving(
    serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    made = Receiver(serve)
    server = await asyncio.start_server(made.accept, host, 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.end()


async def request(reader: asyncio.StreamReader) -> bytes:
    """The head of the next request; its body is read as well."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return head


async def with_body(caller: HttpCaller, url: str, body: bytes) -> Outcome:
    delivery = msgspec.structs.replace(a_delivery(1), target=HttpTarget(url))
    outcome = await caller.call(delivery, body, TaskContext(delivery))
    assert outcome is not None
    return outcome


@asynccontextmanager
async def calling_at_one_moment() -> AsyncIterator[HttpCaller]:
    """No connection is idle for too long."""
    async with HttpCaller(SystemClock(lambda: 0.0), None, 10) as caller:
        yield caller


async def twice(serve: Serve) -> tuple[list[Outcome], int]:
    """Two calls, one after the other, and over how many connections they went."""
    async with receiving(serve) as receiver, calling() as caller:
        outcomes = [await called(caller, receiver.url) for _ in range(2)]
    return outcomes, receiver.connections
