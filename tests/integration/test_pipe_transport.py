"""What a worker's end of the pipe makes of faults, and of what strangers put into Redis."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec
import pytest
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from tests.brokers import ValkeyServer
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.pipe.meeting.frames import (
    PipeAnswer,
    PipeCall,
    beat_channel,
    encoded,
    gateway_channel,
)
from gnomon.remote.gateway_calls import ELSEWHERE
from gnomon.remote.pipe_transport import _DOUBT_SECONDS, _HICCUP_SECONDS, PipeTransport
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


class PlayedGateways:
    """Gateways that answer with a status each; None: not at all."""

    def __init__(self, valkey: ValkeyServer, **statuses: int | None) -> None:
        self.statuses = statuses
        self.now = 100.0  # monotonic, of the worker
        self.asked: list[str] = []
        self._redis = Redis.from_url(valkey.url)
        settings = PipeSettings(url=valkey.url, namespace=NAMESPACE)
        transport = PipeTransport(settings, SystemClock(self._tick), b"")
        self._http = httpx.AsyncClient(transport=transport, base_url="http://pipe")
        self._transport = transport

    def _tick(self) -> float:
        self.now += 1e-6  # no two moments are the same
        return self.now

    async def __aenter__(self) -> "PlayedGateways":
        self._listening = self._redis.pubsub()
        self._channels = {gateway_channel(NAMESPACE, name): name for name in self.statuses}
        await self._listening.subscribe(*self._channels)
        self._answering = asyncio.ensure_future(self._answer())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._answering.cancel()
        await asyncio.gather(self._answering, return_exceptions=True)
        await self._http.aclose()
        await self._listening.aclose()  # type: ignore[no-untyped-call]
        await self._redis.aclose()

    async def _answer(self) -> None:
        read = msgspec.msgpack.Decoder(PipeCall).decode
        while True:
            message = await self._listening.get_message(timeout=1)
            if message is None or message["type"] != "message" or not message["data"]:
                continue
            name, call = self._channels[message["channel"].decode()], read(message["data"])
            self.asked.append(name)
            status = self.statuses[name]
            if status is not None:
                answer = encoded(PipeAnswer(call.number, status, {}, b""))
                await self._redis.publish(call.answer_to, answer)

    async def ask(self, *, elsewhere: bool = False, seconds: float = 20.0) -> str:
        """Who is asked."""
        with suppress(httpx.ReadTimeout):
            await self._http.get("/", extensions={ELSEWHERE: elsewhere}, timeout=seconds)
        return self.asked[-1]

    def gone(self, name: str) -> None:
        """The broker says that nobody listens there, and lists it still."""
        connection = self._transport._connection
        assert connection is not None
        connection.gone([gateway_channel(NAMESPACE, name)])

    async def beat(self, name: str) -> None:
        """Say that it is well, and wait until the worker has heard it."""
        connection = self._transport._connection
        assert connection is not None
        channel = gateway_channel(NAMESPACE, name)
        connection._beats.pop(channel, None)
        await self._redis.publish(beat_channel(NAMESPACE), channel)

        async def heard() -> bool:
            return channel in connection._beats

        await eventually(heard)


async def test_a_gateway_that_refuses_for_longer_than_a_moment_is_left(
    valkey: ValkeyServer,
) -> None:
    async with PlayedGateways(valkey, a=200, b=200) as played:
        chosen = await played.ask()
        other = "b" if chosen == "a" else "a"
        played.statuses[chosen] = 503
        assert [await played.ask() for _ in range(3)] == [chosen] * 3
        played.now += _HICCUP_SECONDS - 0.1
        assert await played.ask() == chosen
        played.statuses[chosen] = 200  # the hiccup is over
        assert await played.ask() == chosen
        played.statuses[chosen] = 503
        played.now += 0.2
        assert await played.ask() == chosen  # another one has begun
        played.now += _HICCUP_SECONDS
        assert await played.ask() == chosen
        assert await played.ask() == other
        played.statuses[chosen] = 200
        await played.beat(chosen)  # the broker hears of it all the time
        played.now += 3 * _DOUBT_SECONDS
        assert await played.ask() == other  # no reason to go back


async def test_where_there_is_no_other_gateway_the_same_is_asked_again(
    valkey: ValkeyServer,
) -> None:
    async with PlayedGateways(valkey, a=503) as played:
        for _ in range(4):
            assert await played.ask(elsewhere=True) == "a"
            played.now += _HICCUP_SECONDS


async def test_a_gateway_that_is_gone_is_not_asked_again_though_it_is_listed(
    valkey: ValkeyServer,
) -> None:
    async with PlayedGateways(valkey, a=200, b=200) as played:
        chosen = await played.ask()
        played.gone(chosen)
        assert await played.ask() != chosen


@pytest.mark.parametrize("status", [503, None])
async def test_a_request_goes_elsewhere_at_once_and_beats_of_the_one_before_change_nothing(
    valkey: ValkeyServer, status: int | None
) -> None:
    """A gateway that has lost PostgreSQL says every second through the broker that it is there."""
    async with PlayedGateways(valkey, a=200, b=200) as played:
        chosen = await played.ask()
        other = "b" if chosen == "a" else "a"
        played.statuses[chosen] = status
        assert await played.ask(seconds=0.3) == chosen
        await played.beat(chosen)
        assert await played.ask(elsewhere=True) == other
        played.statuses[other] = 503
        assert await played.ask() == other
        # Both are doubted now: the one that has failed longest ago is asked, in turn.
        played.now += 1.0
        assert await played.ask(elsewhere=True, seconds=0.3) == chosen
        played.now += 1.0
        assert await played.ask(elsewhere=True, seconds=0.3) == other
        played.now += 2 * _DOUBT_SECONDS
        played.statuses[chosen] = 200
        assert await played.ask() == chosen
