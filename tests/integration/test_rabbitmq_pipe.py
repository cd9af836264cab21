"""Workers behind a real RabbitMQ: the contracts, alarms, kills, TLS, and what its users may do."""

import asyncio
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import httpx
import pytest
from aio_pika.exceptions import ChannelClosed
from tests.brokers import RABBITMQ, RabbitServer
from tests.certificates import Authority
from tests.conformance.test_links import LinksThroughBroker
from tests.conformance.test_pipes import ThroughBroker
from tests.integration.pipe_calls import pipe_ends
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.pipe.meeting.link import PipeUnavailable, link_to
from gnomon.pipe.rabbitmq.link import RabbitLink
from gnomon.settings import PipeSettings
from gnomon.testing.contracts.link import RecordingEnd

MISSING = "no RabbitMQ is installed (Debian: apt-get install rabbitmq-server)"
HOW_TO = Path(__file__).parents[2] / "docs/how-to/workers-behind-rabbitmq-or-kafka.md"
CHORE = "rabbitmq-pipe"


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    if not RABBITMQ:
        assert os.environ.get("CI") != "true", MISSING
        pytest.skip(MISSING)
    server = RabbitServer(tmp_path_factory.mktemp("rabbitmq"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def broker_url(rabbit: RabbitServer) -> str:
    return rabbit.pipe_url


class TestRabbitLink(LinksThroughBroker):
    """Its contract."""


class TestRabbitPipe(ThroughBroker):
    """Its contract."""


async def test_while_an_alarm_is_on_nothing_is_carried_and_that_is_told(
    rabbit: RabbitServer,
) -> None:
    async with asyncio.timeout(60), pipe_ends(rabbit.pipe_url) as ends:
        await eventually(lambda: ends.answered("before"))
        assert await ends.up.get()
        await asyncio.to_thread(rabbit.control, "set_vm_memory_high_watermark", "absolute", "1")
        try:
            assert not await ends.up.get()
            (trouble,) = ends.troubles.all()
            assert trouble.chore == CHORE
            assert "connection.blocked" in trouble.error
            with pytest.raises(httpx.TransportError):
                await ends.ask("meanwhile")
        finally:
            await asyncio.to_thread(rabbit.control, "set_vm_memory_high_watermark", "0.4")
        await eventually(lambda: ends.answered("after"))
        assert not ends.troubles.all()


async def test_both_ends_connect_again_after_a_kill(rabbit: RabbitServer) -> None:
    async with asyncio.timeout(90), pipe_ends(rabbit.pipe_url) as ends:
        await eventually(lambda: ends.answered("before"))
        rabbit.kill()
        while await ends.answered("meanwhile"):
            pass  # what was on its way
        with pytest.raises(httpx.TransportError, match="RabbitMQ at amqp://127"):
            await ends.ask("meanwhile")
        await asyncio.to_thread(rabbit.start)
        await eventually(lambda: ends.answered("after"))
        assert not ends.troubles.all()


async def test_tls_with_certificates_of_a_private_authority(
    rabbit: RabbitServer, tmp_path: Path
) -> None:
    rabbit.authority.sign(tmp_path, "127.0.0.1", name="node")
    url = rabbit.tls_url.replace("@", f":{rabbit.PASSWORD}@")
    good: dict[str, Any] = {
        "ca_file": str(rabbit.authority.file),
        "certificate_file": str(tmp_path / "node.crt"),
        "key_file": str(tmp_path / "node.key"),
    }
    async with asyncio.timeout(60), pipe_ends(url, **good) as ends:
        await eventually(lambda: ends.answered("with a certificate"))
    other = {"ca_file": str(Authority(tmp_path, "other").file)}
    async with asyncio.timeout(60), pipe_ends(url, worker=other, **good) as ends:
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            await ends.ask("to a stranger")
    wrong = {"url": url.replace(rabbit.PASSWORD, "wrong-secret")}
    async with asyncio.timeout(60), pipe_ends(url, worker=wrong, **good) as ends:
        with pytest.raises(httpx.ConnectError, match="RabbitMQ at") as refused:
            await ends.ask("by a stranger")
        assert "wrong-secret" not in str(refused.value)


def commands_of_the_how_to() -> list[list[str]]:
    lines = HOW_TO.read_text().splitlines()
    found = [shlex.split(each)[1:] for each in lines if each.startswith("rabbitmqctl ")]
    assert [each[:2] for each in found] == [
        ["add_user", "worker"],
        ["set_permissions", "worker"],
        ["add_user", "gateway"],
        ["set_permissions", "gateway"],
    ]
    return found


async def test_users_of_the_how_to_can_do_their_part_and_hear_no_calls_of_others(
    rabbit: RabbitServer,
) -> None:
    for words in commands_of_the_how_to():
        await asyncio.to_thread(rabbit.control, *words)
    address = f"127.0.0.1:{rabbit.port}/"
    url = f"amqp://worker:secret@{address}"
    async with (
        asyncio.timeout(60),
        pipe_ends(
            f"amqp://gateway:another@{address}", worker={"url": url}, namespace="gnomon"
        ) as ends,
    ):
        await eventually(lambda: ends.answered("by a user of the how-to"))
        connection = await aio_pika.connect(url)
        async with connection, connection.channel() as channel:
            queue = await channel.declare_queue("gnomon:1:worker:curious", exclusive=True)
            with pytest.raises(ChannelClosed, match="ACCESS_REFUSED"):
                await queue.bind("gnomon:1:calls", "gnomon:1:gateway:any")


@pytest.mark.usefixtures("rabbit")  # there is one
async def test_a_server_that_takes_no_large_messages_is_named_before_any_is_sent(
    tmp_path: Path,
) -> None:
    small = RabbitServer(tmp_path, "max_message_size = 1000000\n")
    await asyncio.to_thread(small.start)
    try:
        async with asyncio.timeout(60), pipe_ends(small.pipe_url) as ends:
            assert not await ends.up.get()
            (trouble,) = ends.troubles.all()
            assert "set its max_message_size to that, or more" in trouble.error
            assert "1000000" in trouble.error, "what it takes now"

            async def again() -> bool:
                return trouble.count > 1

            await eventually(again)
            pause = (trouble.retry_at - trouble.last).total_seconds()
            assert pause >= 0.5, "16 MiB are not sent every moment"
        await is_tried_again_after_a_message_was_too_large(small.pipe_url)
    finally:
        await asyncio.to_thread(small.stop)


async def is_tried_again_after_a_message_was_too_large(url: str) -> None:
    end = RecordingEnd(is_gateway=True)
    end.largest_tried = True  # when it took more
    settings = PipeSettings(url=url, silence_seconds=2.0)
    link = link_to(settings, "gnomon:1:gateway:g", SystemClock(), end)
    running = asyncio.create_task(link.run())
    async with asyncio.timeout(30):
        await end.connected.wait()
        with pytest.raises(PipeUnavailable):
            await link.publish(link.channel, b"x" * 2_000_000)
        with pytest.raises(PipeUnavailable):
            await running
    assert not end.largest_tried


class CountedTrials:
    """Of the largest message."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        trial = RabbitLink._try_largest

        async def counted(link: RabbitLink, connection: Any, sender: Any) -> None:
            self.count += 1
            await trial(link, connection, sender)

        monkeypatch.setattr(RabbitLink, "_try_largest", counted)


async def test_the_largest_message_is_tried_once_and_not_on_every_connection(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = CountedTrials(monkeypatch)
    async with asyncio.timeout(60), pipe_ends(rabbit.pipe_url) as ends:
        await eventually(lambda: ends.answered("before"))
        await asyncio.to_thread(rabbit.control, "close_all_connections", "a test")
        assert await ends.up.get()
        assert not await ends.up.get()
        await eventually(lambda: ends.answered("after"))
    assert trials.count == 1


async def test_a_wait_that_the_client_gives_up_by_itself_ends_one_connection_only(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client cancels what waits when no heartbeats come, and not the task of the link."""
    trial, trials = RabbitLink._try_largest, 0

    async def given_up_once(link: RabbitLink, connection: Any, sender: Any) -> None:
        nonlocal trials
        trials += 1
        if trials == 1:
            raise asyncio.CancelledError
        await trial(link, connection, sender)

    monkeypatch.setattr(RabbitLink, "_try_largest", given_up_once)
    async with asyncio.timeout(60), pipe_ends(rabbit.pipe_url) as ends:
        assert not await ends.up.get()
        await eventually(lambda: ends.answered("after"))


async def test_where_the_largest_message_takes_too_long_that_is_said_and_the_link_does_without(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.pipe.rabbitmq.link._LARGEST_SECONDS", 0.001)
    trials = CountedTrials(monkeypatch)
    async with asyncio.timeout(60), pipe_ends(rabbit.pipe_url) as ends:
        assert not await ends.up.get()
        (trouble,) = ends.troubles.all()
        assert "it has not taken 16777216 bytes in 0.001 s" in trouble.error
        await eventually(lambda: ends.answered("without"))
        assert not ends.troubles.all()
    assert trials.count == 1
