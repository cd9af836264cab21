"""A stall of the server is seen by every request that was planned meanwhile, not by one. A server
that goes away, or falls silent, ends the load."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gnomon.bench.load import HttpLoad, Loaded
from gnomon.bench.processes import helper

STALL_SECONDS = 0.4
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


class StallingServer:
    """Answers at once, but for the first request."""

    def __init__(self, status: bytes = ANSWER) -> None:
        self._answer = status
        self._stall = STALL_SECONDS

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
                stall, self._stall = self._stall, 0.0
                await asyncio.sleep(stall)
                writer.write(self._answer)
        except asyncio.IncompleteReadError:
            writer.close()


@pytest.mark.parametrize(("rate", "seen"), [(100.0, True), (None, False)])
async def test_a_stall_counts_for_all_that_were_planned(rate: float | None, seen: bool) -> None:
    server = await asyncio.start_server(StallingServer().serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        load = HttpLoad(port=port, rate=rate, seconds=0.5 if rate else None,
                        requests=None if rate else 50)  # fmt: skip
        loaded = await helper("gnomon.bench.load", load, Loaded)
    assert (loaded.accepted, loaded.refused) == (50, 0)
    assert loaded.p99 >= STALL_SECONDS * 0.9
    assert (loaded.p50 >= STALL_SECONDS / 8) == seen


async def test_refusals_are_counted() -> None:
    refusing = StallingServer(ANSWER.replace(b"202 Accepted", b"503 Service Unavailable"))
    server = await asyncio.start_server(refusing.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        load = HttpLoad(port=port, rate=50.0, seconds=0.2)
        loaded = await helper("gnomon.bench.load", load, Loaded)
    assert (loaded.accepted, loaded.refused) == (0, 10)


async def _hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def _answers_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ANSWER)
    writer.close()


async def _is_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize(("rate", "pause"), [(100.0, 0.0), (None, 0.0), (None, 0.02)])
@pytest.mark.parametrize("serve", [_hangs_up, _answers_once, _is_silent])
async def test_a_server_that_answers_no_more_ends_the_load(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    rate: float | None,
    pause: float,
) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        load = HttpLoad(port=port, connections=2, rate=rate, seconds=0.1, pause=pause, patience=0.1)
        async with asyncio.timeout(20.0):
            loaded = await helper("gnomon.bench.load", load, Loaded)
    assert loaded.accepted <= 2
    assert loaded.refused >= 2
