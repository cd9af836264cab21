"""Workers behind a real Kafka: the contracts, kills, empty restarts, more partitions, and TLS and
SASL."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are public
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.certificates import Authority
from tests.conformance.test_links import LinksThroughBroker
from tests.conformance.test_pipes import ThroughBroker
from tests.integration.pipe_calls import pipe_ends
from tests.kafka.jars import missing
from tests.kafka.server import PASSWORD, USER, KafkaServer
from tests.waiting import eventually


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    if (why := missing()) is not None:
        assert os.environ.get("CI") != "true", why
        pytest.skip(why)
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def broker_url(kafka: KafkaServer) -> str:
    return kafka.url()


class TestKafkaLink(LinksThroughBroker):
    """Its contract."""

    tells_at_once = False


class TestKafkaPipe(ThroughBroker):
    """Its contract."""


async def test_both_ends_connect_again_after_a_kill_and_after_an_empty_restart(
    kafka: KafkaServer,
) -> None:
    async with asyncio.timeout(120), pipe_ends(kafka.url()) as ends:
        await eventually(lambda: ends.answered("before"))
        for restart in (kafka.start, kafka.restart_empty):
            kafka.kill()
            with pytest.raises(httpx.TransportError):
                await ends.ask("meanwhile")
            await asyncio.to_thread(restart)
            await eventually(lambda: ends.answered("after"))
            assert not ends.troubles.all()


async def test_more_partitions_disturb_nobody(kafka: KafkaServer) -> None:
    async with asyncio.timeout(60), pipe_ends(kafka.url(), namespace="grown", partitions=1) as ends:
        await eventually(lambda: ends.answered("before"))
        topics = [NewPartitions(f"grown.1.{name}", 5) for name in ("calls", "answers")]
        for made in kafka.admin.create_partitions(topics).values():
            made.result(30)
        assert await ends.answered("after")
        async with pipe_ends(kafka.url(), namespace="grown") as others:
            await eventually(lambda: others.answered("by others"))
        assert await ends.answered("at last")


def set_largest(kafka: KafkaServer, topic: str, most: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(most), incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for made in kafka.admin.incremental_alter_configs([changed]).values():
        made.result(30)


async def test_topics_for_small_messages_are_a_trouble_that_says_what_to_do(
    kafka: KafkaServer,
) -> None:
    config = {"max.message.bytes": "100000"}
    for made in kafka.admin.create_topics([NewTopic("small.1.answers", 1, config=config)]).values():
        made.result(30)
    async with asyncio.timeout(60), pipe_ends(kafka.url(), namespace="small") as ends:
        assert not await ends.up.get()
        (trouble,) = ends.troubles.all()
        assert "small.1.answers takes messages of at most 100000 bytes" in trouble.error
        assert "set its max.message.bytes to 17825792" in trouble.error
        set_largest(kafka, "small.1.answers", 17825792)
        await eventually(lambda: ends.answered("after"), 30)
        assert not ends.troubles.all()


async def test_an_answer_that_kafka_does_not_take_is_answered_by_a_problem(
    kafka: KafkaServer,
) -> None:
    async with asyncio.timeout(60), pipe_ends(kafka.url(), namespace="shrunk") as ends:
        await eventually(lambda: ends.answered("before"))
        set_largest(kafka, "shrunk.1.answers", 100_000)

        async def refused() -> bool:
            return "Kafka does not take the answer of 200000 bytes" in await ends.ask("x" * 200_000)

        await eventually(refused)
        assert await ends.answered("small")


async def test_tls_with_certificates_of_a_private_authority(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    kafka.authority.sign(tmp_path, "127.0.0.1", name="node")
    good: dict[str, Any] = {
        "ca_file": str(kafka.authority.file),
        "certificate_file": str(tmp_path / "node.crt"),
        "key_file": str(tmp_path / "node.key"),
    }
    url = kafka.url("SSL")
    async with asyncio.timeout(60), pipe_ends(url, **good) as ends:
        await eventually(lambda: ends.answered("with a certificate"))
    other = {"ca_file": str(Authority(tmp_path, "other").file)}
    async with asyncio.timeout(60), pipe_ends(url, worker=other, **good) as ends:
        with pytest.raises(httpx.ConnectError, match="verify failed"):
            await ends.ask("to a stranger")


async def test_sasl_over_tls(kafka: KafkaServer) -> None:
    url = kafka.url("SASL_SSL").replace(f"{USER}@", f"{USER}:{PASSWORD}@")
    files: dict[str, Any] = {"ca_file": str(kafka.authority.file)}
    async with asyncio.timeout(60), pipe_ends(url, **files) as ends:
        await eventually(lambda: ends.answered("with a password"))
    wrong = {"url": url.replace(PASSWORD, "wrong-secret")}
    async with asyncio.timeout(60), pipe_ends(url, worker=wrong, **files) as ends:
        with pytest.raises(httpx.ConnectError, match="Kafka at") as refused:
            await ends.ask("by a stranger")
        assert "uthentication" in str(refused.value)
        assert "wrong-secret" not in str(refused.value)
