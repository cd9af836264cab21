"""A receiver of webhooks at the level of bytes: for answers that no HTTP library would give."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import Outcome
from gnomon.model.targets.target import HttpTarget
from gnomon.node.run.targets.http import HttpCaller
from gnomon.sdk.executing.context import TaskContext
from gnomon.testing.contracts.pipe import a_delivery

PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class RawRequest:
    """A request, and how many were read before it: from everybody, and on its connection."""

    method: str
    headers: dict[str, str]
    number: int
    on_connection: int


# The answer; None drops the connection without one, ConnectionResetError resets it.
Respond = Callable[[RawRequest], Awaitable[bytes | None]]


class RawServer:
    """Reads requests, counts them, and answers with the bytes that it is told to."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.requests: list[RawRequest] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            on_connection = 0
            while (request := await self._read(reader, on_connection)) is not None:
                self.requests.append(request)
                on_connection += 1
                answer = await self._respond(request)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                head = answer.partition(b"\r\n\r\n")[0].lower()
                if b"content-length" not in head or b"connection: close" in head:
                    break
        except ConnectionResetError:
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, on_connection: int) -> RawRequest | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.rstrip().split("\r\n")
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
        await reader.readexactly(int(headers.get("content-length", 0)))
        return RawRequest(first.split()[0], headers, len(self.requests), on_connection)


@asynccontextmanager
async def serving(respond: Respond) -> AsyncIterator[RawServer]:
    made = RawServer(respond)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[RawServer]:
    """The same bytes for everybody."""

    async def respond(_: RawRequest) -> bytes:
        return answer

    async with serving(respond) as server:
        yield server


@asynccontextmanager
async def calling() -> AsyncIterator[HttpCaller]:
    async with HttpCaller(SystemClock(), None, 10) as caller:
        yield caller


async def called(caller: HttpCaller, url: str, method: str = "POST", **values: Any) -> Outcome:
    """One try at a webhook."""
    given = {"target": HttpTarget(url, method), **values}
    delivery = msgspec.structs.replace(a_delivery(1), **given)
    outcome = await caller.call(delivery, b"{}", TaskContext(delivery))
    assert outcome is not None
    return outcome


async def called_at(server: RawServer, method: str = "POST", **values: Any) -> Outcome:
    """One try, by a caller of its own."""
    async with calling() as caller:
        return await called(caller, f"http://127.0.0.1:{server.port}/", method, **values)
