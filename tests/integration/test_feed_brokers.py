"""Feeds to a real RabbitMQ and a real Kafka, killed and started again: none lost, in order."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic
from tests.brokers import RabbitServer
from tests.integration.feeding import feed, notes, put
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, end_of, store
from tests.integration.test_feeds import ended
from tests.integration.test_kafka_targets import kafka, records
from tests.integration.test_rabbitmq_targets import channel_to, queues, rabbit, secret
from tests.kafka.server import KafkaServer
from tests.waiting import eventually

from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds
from gnomon.store.postgres.tasks.task_store import PostgresTasks

__all__ = ["kafka", "rabbit", "secret"]  # fixtures

Told = Callable[[], Awaitable[list[dict[str, Any]]]]


async def _through_an_outage(
    database: Database,
    connection: Connection,
    broker: RabbitServer | KafkaServer,
    told: Told,
) -> None:
    tasks = PostgresTasks(database, CollectedHints(database), 60.0)
    made = await ended(database, connection, *["echo"] * 10)
    await asyncio.to_thread(broker.kill)
    made += await ended(database, connection, *["echo"] * 20, "stumble")
    retried = made[-1]
    async with tasks.change(DEFAULT_TENANT) as change:
        await change.redrive(retried.id)
    await asyncio.to_thread(broker.start)
    made += await ended(database, connection, *["echo"] * 10)

    async def published() -> bool:
        return not await notes(connection)

    await eventually(published, timeout=60)
    events = list({each["id"]: each for each in reversed(await told())}.values())[::-1]
    assert {each["subject"] for each in events} == {str(each.id) for each in made}
    assert [each["type"] for each in events if each["subject"] == str(retried.id)] == [
        "gnomon.task.dead_lettered",
        "gnomon.task.completed",
    ]


@pytest.mark.timeout(180)
async def test_outcomes_reach_rabbitmq(
    database_dsn: str,
    database: Database,
    connection: Connection,
    rabbit: RabbitServer,
    secret: Any,
) -> None:
    async with channel_to(rabbit) as channel:
        await channel.declare_queue("results", durable=True)
    await put(database, feed())

    async def told() -> list[dict[str, Any]]:
        found = []
        async with channel_to(rabbit) as channel:
            queue = await channel.declare_queue("results", durable=True)
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                assert message.content_type == "application/cloudevents+json; charset=utf-8"
                event = json.loads(message.body)
                assert message.message_id == event["id"]
                found.append(event)
        return found

    async with running_node(database_dsn, targets_queues=queues(rabbit, secret)):
        await _through_an_outage(database, connection, rabbit, told)


@pytest.mark.timeout(180)
async def test_what_a_topic_of_kafka_refuses_is_told_shortened(
    database_dsn: str, database: Database, connection: Connection, kafka: KafkaServer
) -> None:
    """One that takes little, and nothing without a key."""
    small = {"max.message.bytes": "2000", "cleanup.policy": "compact"}
    for made in kafka.admin.create_topics([NewTopic("small", 1, 1, config=small)]).values():
        made.result(30)
    feed_id = await put(database, feed(topic="small"))
    now = await database_now(connection)
    _, large = call_of(now, "echo", payload={"returns": "x" * 5000})
    known = {"orders": QueueConnection(url=kafka.url())}
    async with running_node(database_dsn, targets_queues=known):
        (key,) = await store(database, large)
        await end_of(connection, key)
        await connection.execute("UPDATE gnomon.feed SET gap_since = gnomon.now()")

        async def published() -> bool:
            return (await PostgresFeeds(database).get(DEFAULT_TENANT, "results")).published == 2

        await eventually(published, timeout=60)
    told, gap = await asyncio.to_thread(records, kafka, "small")
    data = json.loads(told.value() or b"")["data"]
    assert (data["result"], data["shortened"]) == (None, True)
    assert (told.key(), gap.key()) == (str(large.id).encode(), str(feed_id).encode())


@pytest.mark.timeout(180)
async def test_outcomes_reach_kafka(
    database_dsn: str,
    database: Database,
    connection: Connection,
    kafka: KafkaServer,
) -> None:
    for made in kafka.admin.create_topics([NewTopic("results", 1, 1)]).values():
        made.result(30)
    await put(database, feed())

    async def told() -> list[dict[str, Any]]:
        found = []
        for record in await asyncio.to_thread(records, kafka, "results"):
            event = json.loads(record.value() or b"")
            assert record.key() == event["subject"].encode()
            found.append(event)
        return found

    known = {"orders": QueueConnection(url=kafka.url())}
    async with running_node(database_dsn, targets_queues=known):
        await _through_an_outage(database, connection, kafka, told)
