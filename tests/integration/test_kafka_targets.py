"""Messages to a real Kafka: confirmed, with their keys and headers, and none lost when it is
killed."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.cimpl import NewTopic
from tests.certificates import Authority
from tests.integration.nodes import running_node
from tests.integration.support import Connection, database_now, end_of, key_of, store, submission
from tests.integration.test_queue_targets import QUICK, SOON, TWICE
from tests.kafka.jars import missing
from tests.kafka.server import PASSWORD, KafkaServer
from tests.waiting import eventually

from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Submission
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.database import Database

TOPICS = ("created", "rotated", "tls", "killed")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    if (why := missing()) is not None:
        assert os.environ.get("CI") != "true", why
        pytest.skip(why)
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    server.start()
    for made in server.admin.create_topics([NewTopic(each, 1, 1) for each in TOPICS]).values():
        made.result(30)
    yield server
    server.kill()


def queues(url: str, **values: Any) -> dict[str, QueueConnection]:
    return {"orders": QueueConnection(url=url, **values)}


async def published(
    database: Database, connection: Connection, topic: str, retry_policy: RetryPolicy = SOON
) -> Submission:
    now = await database_now(connection)
    target = QueueTarget(f"queue://orders/{topic}", "o_1", {"x-region": "eu"})
    new = submission(now, target=target, payload=b'{"n": 1}', retry_policy=retry_policy)
    await store(database, new)
    return new


def records(server: KafkaServer, topic: str) -> list[Message]:
    """All that the topic has."""
    consumer = Consumer({"bootstrap.servers": server.plain, "group.id": "test", "log_level": 0})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while len(found) < end:
            found += consumer.consume(end - len(found), timeout=30)
        return found
    finally:
        consumer.close()


def header(record: Message, name: str) -> str:
    value = dict(record.headers() or [])[name]
    assert isinstance(value, bytes)
    return value.decode()


async def last_error(connection: Connection, new: Submission) -> str:
    async def told() -> str | None:
        error: str | None = await connection.fetchval(
            "SELECT last_error FROM gnomon.task WHERE id = $1", new.id
        )
        return error

    return await eventually(told)


async def test_a_record_has_the_payload_the_key_and_the_headers(
    database_dsn: str, database: Database, connection: Connection, kafka: KafkaServer
) -> None:
    async with running_node(database_dsn, targets_queues=queues(kafka.url())):
        new = await published(database, connection, "created")
        ended = await end_of(connection, key_of(new))
        assert (ended["last_error"], ended["attempt"]) == (None, 1)
        for topic, told, attempts in (
            ("nothing", "there is no topic 'nothing'", 3),
            ("a:b", "'a:b' is no name that a topic can have", 1),
        ):
            lost = await published(database, connection, topic, TWICE)
            ended = await end_of(connection, key_of(lost))
            assert ended["last_error"] == f"queue://orders: {told}"
            assert ended["attempt"] == attempts
    (record,) = await asyncio.to_thread(records, kafka, "created")
    assert (record.value(), record.key()) == (b'{"n": 1}', b"o_1")
    assert header(record, "webhook-id") == str(new.id)
    assert (header(record, "gnomon-attempt"), header(record, "x-region")) == ("1", "eu")


async def test_a_message_waits_for_a_topic_that_is_still_to_be_made(
    database_dsn: str, database: Database, connection: Connection, kafka: KafkaServer
) -> None:
    async with running_node(database_dsn, targets_queues=queues(kafka.url())):
        new = await published(database, connection, "later")
        assert await last_error(connection, new) == "queue://orders: there is no topic 'later'"
        for made in kafka.admin.create_topics([NewTopic("later", 1, 1)]).values():
            await asyncio.to_thread(made.result, 30)
        assert (await end_of(connection, key_of(new)))["state"] == State.COMPLETED


async def test_credentials_are_rotated_without_a_restart(
    database_dsn: str,
    database: Database,
    connection: Connection,
    kafka: KafkaServer,
    tmp_path: Path,
) -> None:
    secret = tmp_path / "password"
    secret.write_text("wrong\n")
    used = queues(kafka.url("SASL_PLAINTEXT"), password_file=str(secret))
    async with running_node(database_dsn, targets_queues=used, rules=QUICK):
        new = await published(database, connection, "rotated")
        assert await last_error(connection, new) == (
            "queue://orders: the broker refuses the credentials of the connection"
        )
        secret.write_text(f"{PASSWORD}\n")
        assert (await end_of(connection, key_of(new)))["finished_at"] is not None
    assert len(await asyncio.to_thread(records, kafka, "rotated")) == 1


async def test_tls_with_a_private_authority_and_a_certificate(
    database_dsn: str,
    database: Database,
    connection: Connection,
    kafka: KafkaServer,
    tmp_path: Path,
) -> None:
    kafka.authority.sign(tmp_path, "127.0.0.1", name="node")
    (tmp_path / "password").write_text(PASSWORD)
    ours = {"ca_file": str(kafka.authority.file)}
    certificate = {
        "certificate_file": str(tmp_path / "node.crt"),
        "key_file": str(tmp_path / "node.key"),
    }
    password = {"password_file": str(tmp_path / "password")}
    scram = password | {"sasl_mechanism": "SCRAM-SHA-512"}
    for listener, values in (
        ("SSL", ours | certificate),
        ("SASL_SSL", ours | password),
        ("SASL_SSL", ours | scram),
    ):
        used = queues(kafka.url(listener), **values)
        async with running_node(database_dsn, targets_queues=used):
            ended = await end_of(connection, key_of(await published(database, connection, "tls")))
            assert ended["last_error"] is None, listener
    other = {"ca_file": str(Authority(tmp_path, "other").file)}
    used = queues(kafka.url("SASL_SSL"), **other | password)
    async with running_node(database_dsn, targets_queues=used):
        error = await last_error(connection, await published(database, connection, "tls"))
        assert "certificate verify failed" in error


async def test_a_broker_that_is_killed_in_the_middle_loses_nothing(
    database_dsn: str, database: Database, connection: Connection, kafka: KafkaServer
) -> None:
    async with running_node(database_dsn, targets_queues=queues(kafka.url()), rules=QUICK):
        new = [await published(database, connection, "killed") for _ in range(20)]
        await end_of(connection, key_of(new[0]))
        kafka.kill()
        new += [await published(database, connection, "killed") for _ in range(10)]
        await asyncio.to_thread(kafka.start)  # the node goes on meanwhile
        for each in new:
            assert (await end_of(connection, key_of(each)))["finished_at"] is not None
    found = await asyncio.to_thread(records, kafka, "killed")
    assert {header(each, "webhook-id") for each in found} == {str(each.id) for each in new}
