"""What an API process makes of calls through Redis that no worker of ours would send."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar.types import Receive, Scope, Send
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from tests.brokers import ValkeyServer
from tests.integration.pipe_calls import pipe_ends
from tests.waiting import eventually

from gnomon.api.http.bounds.request_limits import CONNECTION
from gnomon.api.workers.pipe_listener import PipeBounds, PipeListener
from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_secret
from gnomon.observe.events import nobody
from gnomon.pipe.meeting.frames import (
    PipeAnswer,
    PipeCall,
    encoded,
    gateway_channel,
    worker_channel,
)
from gnomon.settings import PipeSettings

POLL = "/api/v1/worker-sessions/s/poll"
BOUNDS = PipeBounds(calls=20, bytes=100_000, largest=10_000)
ROOMY = PipeBounds(calls=20, bytes=100_000, largest=30_000)
_read = msgspec.msgpack.Decoder(PipeAnswer).decode


class Application:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.scopes: list[Scope] = []
        self.most = self._now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self._now += 1
        self.most = max(self.most, self._now)
        await self.go.wait()
        self._now -= 1
        start: Any = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        body: Any = {"type": "http.response.body", "body": b"{}"}
        await send(body)


class Sender:
    """Whoever has the credentials of Redis."""

    def __init__(self, redis: Redis, heard: PubSub, namespace: str, gateway: str) -> None:
        self._redis = redis
        self._heard = heard
        self.channels = [worker_channel(namespace, f"w{number}") for number in range(5)]
        self._gateway = gateway

    def call(self, number: int, channel: int = 0, **fields: Any) -> bytes:
        given = {"method": "POST", "path": POLL, "headers": {}, "body": b"{}", **fields}
        return encoded(PipeCall(number=number, answer_to=self.channels[channel], **given))

    async def send(self, *frames: bytes) -> None:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for frame in frames:
                pipeline.publish(self._gateway, frame)
            await pipeline.execute()

    async def answers(self, count: int) -> list[PipeAnswer]:
        found: list[PipeAnswer] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                message = await self._heard.get_message(timeout=1)
                if message is not None and message["type"] == "message":
                    found.append(_read(message["data"]))
        return found


class World:
    """A listener, and somebody who sends to it."""

    def __init__(self, app: Application, sender: Sender, troubles: Troubles) -> None:
        self.app = app
        self.sender = sender
        self.troubles = troubles


@asynccontextmanager
async def listening(url: str, bounds: PipeBounds = BOUNDS) -> AsyncIterator[World]:
    clock = SystemClock()
    settings = PipeSettings(url=url, namespace=f"test-{new_secret(8).hex()}")
    app, troubles, connected = Application(), Troubles(clock, nobody), asyncio.Event()
    listener = PipeListener(app, settings, clock, troubles, lambda _: connected.set(), bounds)
    async with Redis.from_url(url) as redis, redis.pubsub() as heard, asyncio.TaskGroup() as group:
        task = group.create_task(listener.run())
        await connected.wait()
        (gateway,) = await redis.pubsub_channels(gateway_channel(settings.namespace, "*"))
        assert isinstance(gateway, bytes)
        sender = Sender(redis, heard, settings.namespace, gateway.decode())
        await heard.subscribe(*sender.channels)
        yield World(app, sender, troubles)
        task.cancel()


@pytest.fixture
async def world(valkey: ValkeyServer) -> AsyncIterator[World]:
    async with listening(valkey.url) as made:
        yield made
        assert not made.troubles.all()


async def test_calls_beyond_the_bound_are_told_to_come_again(world: World) -> None:
    sender = world.sender
    await sender.send(*(sender.call(number) for number in range(500)))
    refused = await sender.answers(500 - BOUNDS.calls)
    assert {(each.status, each.headers["retry-after"]) for each in refused} == {(503, "1")}
    assert b"too many calls through Redis" in refused[0].body
    assert sum("_answer" in repr(each) for each in asyncio.all_tasks()) == BOUNDS.calls
    world.app.go.set()
    answered = await sender.answers(BOUNDS.calls)
    assert {each.status for each in answered} == {200}
    assert world.app.most == BOUNDS.calls

    async def are_free() -> bool:  # their places, a moment after their answers
        await sender.send(sender.call(1_000))
        return [each.status for each in await sender.answers(1)] == [200]

    await eventually(are_free)


async def test_bytes_of_calls_under_way_are_bounded(world: World) -> None:
    sender = world.sender
    await sender.send(*(sender.call(each, each, body=b"x" * 30_000) for each in range(5)))
    refused = await sender.answers(2)
    assert {(each.number, each.status) for each in refused} == {(3, 503), (4, 503)}
    world.app.go.set()
    assert {each.status for each in await sender.answers(3)} == {200}
    await sender.send(sender.call(5, body=b"x" * BOUNDS.bytes))
    assert [each.status for each in await sender.answers(1)] == [413]


async def test_who_has_much_under_way_leaves_room_for_others(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    sender = world.sender
    await sender.send(*(sender.call(number, body=b"x" * 20_000) for number in range(3)))
    refused = await sender.answers(2)
    assert {(each.number, each.status) for each in refused} == {(1, 503), (2, 503)}
    assert b"this worker" in refused[0].body
    assert capsys.readouterr().out.count("refused calls through Redis") == 1
    await sender.send(sender.call(3, channel=1, body=b"x" * 20_000), sender.call(4))
    world.app.go.set()
    assert {each.status for each in await sender.answers(3)} == {200}


async def test_two_polls_of_a_worker_fit_however_large_they_are(valkey: ValkeyServer) -> None:
    async with listening(valkey.url, ROOMY) as world:
        sender = world.sender
        await sender.send(*(sender.call(number, body=b"x" * 29_000) for number in range(3)))
        assert [(each.number, each.status) for each in await sender.answers(1)] == [(2, 503)]
        world.app.go.set()
        assert {each.status for each in await sender.answers(2)} == {200}


async def test_only_headers_of_workers_are_passed_on_and_the_length_is_counted(
    world: World,
) -> None:
    sender = world.sender
    world.app.go.set()
    headers = {
        "authorization": "Bearer k",
        "Authorization": "Bearer other",
        "content-length": "1000000",
        "cookie": "session=s",
        "x-forwarded-for": "192.0.2.1",
    }
    await sender.send(sender.call(7, headers=headers), sender.call(7, headers=headers))
    assert [each.status for each in await sender.answers(2)] == [200, 200]
    one, other = world.app.scopes
    assert sorted(one["headers"]) == [
        (b"authorization", b"Bearer k"),
        (b"content-length", b"2"),
        (b"host", b"localhost"),
    ]
    assert one[CONNECTION] == sender.channels[0]  # type: ignore[literal-required]
    assert one["client"] != other["client"], "each takes a place, whatever its number"


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (400, {"path": f"{POLL}?{'x' * 10_000}"}),
        (400, {"path": f"{POLL}/ü"}),
        (400, {"headers": {f"x-{n}": "" for n in range(100)}}),
        (400, {"headers": {"tracestate": "x" * 10_000}}),
        (400, {"headers": {"authorization": "Bearer \u20ac"}}),
        (404, {"path": "/api/v1/keys"}),
        (405, {"method": "TRACE"}),
    ],
)
async def test_calls_with_a_fault_are_refused(
    world: World, status: int, fields: dict[str, Any]
) -> None:
    await world.sender.send(world.sender.call(1, **fields))
    assert [each.status for each in await world.sender.answers(1)] == [status]
    assert not world.app.scopes


async def test_frames_that_cannot_be_read_end_nothing(world: World) -> None:
    sender = world.sender
    world.app.go.set()
    whole = sender.call(1)
    deep = bytes([whole[0] + 1]) + whole[1:] + b"\x91" * 100_000 + b"\xc0"  # one field more
    await sender.send(
        b"no call", whole[:-3], whole.replace(b"POST", b"\xff\xff\xff\xff"), deep, whole
    )
    assert [each.number for each in await sender.answers(1)] == [1]


async def test_a_server_that_takes_no_large_messages_is_named_before_any_is_sent(
    tmp_path: Path,
) -> None:
    small = ValkeyServer(tmp_path, "--proto-max-bulk-len", "2mb", kept=False)
    small.start()
    try:
        async with asyncio.timeout(30), pipe_ends(small.url) as ends:
            assert not await ends.up.get()
            (trouble,) = ends.troubles.all()
            assert "set its proto-max-bulk-len to 16777216" in trouble.error
            small.client.config_set("proto-max-bulk-len", "16mb")
            await eventually(lambda: ends.answered("x" * 1_000_000))
    finally:
        small.kill()
