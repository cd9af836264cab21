"""Workers behind a real Kafka: the contracts, kills, empty restarts, more partitions, and TLS and
SASL."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.cimpl import NewPartitions
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
