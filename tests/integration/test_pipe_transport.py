"""What a worker's end of the pipe makes of faults, and of what strangers put into Redis."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from tests.brokers import ValkeyServer
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.pipe.meeting.frames import PipeAnswer, encoded, gateway_channel
from gnomon.remote.pipe_transport import PipeTransport
from gnomon.settings import PipeSettings

NAMESPACE = "shop"
GATEWAY = gateway_channel(NAMESPACE, "g")


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[ValkeyServer]:
    server = ValkeyServer(tmp_path, kept=False)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def http(valkey: ValkeyServer) -> AsyncIterator[httpx.AsyncClient]:
    settings = PipeSettings(url=valkey.url, namespace=NAMESPACE)
    transport = PipeTransport(settings, SystemClock(), b"")
    async with httpx.AsyncClient(transport=transport, base_url="http://pipe", timeout=20) as made:
        yield made


async def heard(listening: PubSub) -> bytes:
    """The next call."""
    async with asyncio.timeout(20):
        while True:
            message = await listening.get_message(timeout=1)
            if message is not None and message["type"] == "message" and message["data"]:
                data: bytes = message["data"]
                return data


async def test_what_is_no_gateway_and_no_answer_is_passed_over(
    valkey: ValkeyServer, http: httpx.AsyncClient
) -> None:
    async with Redis.from_url(valkey.url) as redis, redis.pubsub() as listening:
        await listening.subscribe(gateway_channel(NAMESPACE, "").encode() + b"\xff")
        await listening.get_message(timeout=5)
        with pytest.raises(httpx.ConnectError, match="no gateway listens"):
            await http.get("/")
        await listening.subscribe(GATEWAY)
        await listening.get_message(timeout=5)
        asked = asyncio.ensure_future(http.get("/"))
        await heard(listening)
        (channel,) = await redis.pubsub_channels(f"{NAMESPACE}:1:worker:*")
        good = encoded(PipeAnswer(1, 200, {"a": "b"}, b""))
        for frame in (b"no answer", good.replace(b"b", b"\xff"), good):
            await redis.publish(channel, frame)
        assert (await asked).headers["a"] == "b"


async def test_requests_that_are_cut_off_leave_nothing_behind(
    valkey: ValkeyServer, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    transport = http._transport
    assert isinstance(transport, PipeTransport)
    async with Redis.from_url(valkey.url) as redis, redis.pubsub() as listening:
        await listening.subscribe(GATEWAY)
        await listening.get_message(timeout=5)
        waits = asyncio.ensure_future(http.get("/"))
        await heard(listening)
        valkey.send(signal.SIGSTOP)
        is_sent = asyncio.ensure_future(http.get("/"))

        async def on_its_way() -> bool:
            return transport._connection is not None and len(transport._connection._waiting) == 2

        await eventually(on_its_way)
        valkey.kill()
        ends = await asyncio.gather(waits, is_sent, return_exceptions=True)
        assert [type(each) for each in ends] == [httpx.ConnectError] * 2
    assert transport._connection is not None
    await transport._connection.close()
    assert not transport._connection._waiting
    del waits, is_sent, ends
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_it_can_be_closed_at_any_moment_while_it_connects(valkey: ValkeyServer) -> None:
    """redis-py swallows a cancelling then: the connection went on, and closing waited for ever."""
    settings = PipeSettings(url=valkey.url, namespace=NAMESPACE)
    tasks = len(asyncio.all_tasks())
    for steps in range(60):
        transport = PipeTransport(settings, SystemClock(), b"")
        request = httpx.Request("GET", "http://pipe/")
        asked = asyncio.ensure_future(transport.handle_async_request(request))
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await transport.aclose()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await transport.aclose()

    async def nothing_left() -> bool:
        one_of_ours = len(valkey.client.client_list()) == 1
        return one_of_ours and len(asyncio.all_tasks()) == tasks

    await eventually(nothing_left)
