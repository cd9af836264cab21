"""Connections that are reset while they are made, under the event loop that workers have."""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
import uvloop

from gnomon.client.client import Client
from gnomon.client.errors import ApiUnreachable
from gnomon.client.http import ApiServer
from gnomon.pipe.http.messages import SessionOpening
from gnomon.remote.gateway_calls import GatewayCalls

_TIMES = 300  # one in a hundred is broken off at the moment that httpx does not expect


@pytest.fixture
def resetting() -> Iterator[str]:
    """The address of one who resets every connection."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def test_a_worker_finds_its_gateway_away(resetting: str) -> None:
    async def ask() -> None:
        opening = SessionOpening(name="x", handlers=("a",), slots=1)
        async with GatewayCalls(ApiServer(resetting, None, 5.0)) as gateway:
            for _ in range(_TIMES):
                with pytest.raises(ApiUnreachable):
                    await gateway.open(opening)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())


def test_a_client_finds_its_server_away(resetting: str) -> None:
    async def ask() -> None:
        async with Client(resetting, retries=0) as client:
            for _ in range(_TIMES):
                with pytest.raises(ApiUnreachable):
                    await client.get_task("x")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())
