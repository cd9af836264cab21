"""Workers behind a Kafka that lets its users do what they are allowed to, and nothing else."""

import asyncio
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are public
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.integration.pipe_calls import pipe_ends
from tests.kafka.jars import missing
from tests.kafka.server import PASSWORD, USER, KafkaServer
from tests.waiting import eventually

HOW_TO = Path(__file__).parents[2] / "docs/how-to/workers-behind-rabbitmq-or-kafka.md"
WORKER, GATEWAY = "worker", "gateway"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    if (why := missing()) is not None:
        assert os.environ.get("CI") != "true", why
        pytest.skip(why)
    server = KafkaServer(tmp_path_factory.mktemp("kafka"), users=(WORKER, GATEWAY))
    server.start()
    yield server
    server.kill()


def url_of(kafka: KafkaServer, user: str) -> str:
    return kafka.url("SASL_PLAINTEXT").replace(f"{USER}@", f"{user}:{PASSWORD}@")


def rights_of_the_how_to() -> list[AclBinding]:
    lines = HOW_TO.read_text().splitlines()
    found = [shlex.split(each)[1:] for each in lines if each.startswith("kafka-acls.sh ")]
    return [right for words in found for right in rights(words)]


def rights(words: list[str]) -> Iterator[AclBinding]:
    """What a command allows."""
    given: dict[str, list[str]] = {}
    words = [each for each in words if each != "--add"]
    for option, value in zip(words[::2], words[1::2], strict=True):
        given.setdefault(option, []).append(value)
    (principal,) = given["--allow-principal"]
    (pattern,) = given.get("--resource-pattern-type", ["literal"])
    names = {"DescribeConfigs": AclOperation.DESCRIBE_CONFIGS}
    for topic in given["--topic"]:
        for operation in given["--operation"]:
            yield AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType[pattern.upper()], principal, "*",
                names.get(operation) or AclOperation[operation.upper()], AclPermissionType.ALLOW,
            )  # fmt: skip


def allow(kafka: KafkaServer, *allowed: AclBinding) -> None:
    """These, and nothing else."""
    any_name: Any = None
    everything = AclBindingFilter(
        ResourceType.ANY, any_name, ResourcePatternType.ANY, any_name, any_name, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    for deleted in kafka.admin.delete_acls([everything]).values():
        deleted.result(30)
    for made in kafka.admin.create_acls(list(allowed)).values() if allowed else ():
        made.result(30)


async def test_the_rights_of_the_how_to_are_enough(kafka: KafkaServer) -> None:
    allow(kafka, *rights_of_the_how_to())
    worker = {"url": url_of(kafka, WORKER)}
    url = url_of(kafka, GATEWAY)
    async with asyncio.timeout(90), pipe_ends(url, worker=worker, namespace="gnomon") as ends:
        await eventually(lambda: ends.answered("by both"), 60)
        assert not ends.troubles.all()


async def test_who_may_not_is_told_so_and_may_once_allowed(kafka: KafkaServer) -> None:
    allow(kafka)
    worker = {"url": url_of(kafka, WORKER)}
    url = url_of(kafka, GATEWAY)
    async with asyncio.timeout(120), pipe_ends(url, worker=worker, namespace="gnomon") as ends:
        assert not await ends.up.get()
        (trouble,) = ends.troubles.all()
        assert "authorization failed: allow its user what Kafka's ACLs forbid" in trouble.error
        assert PASSWORD not in trouble.error
        with pytest.raises(httpx.ConnectError, match="what Kafka's ACLs forbid"):
            await ends.ask("by one who may not")
        allow(kafka, *rights_of_the_how_to())
        await eventually(lambda: ends.answered("by one who may"), 60)
        assert not ends.troubles.all()
