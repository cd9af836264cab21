"""Messages to a real RabbitMQ: confirmed, routed, and none lost when it is killed."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from tests.brokers import RABBITMQ, RabbitServer
from tests.certificates import Authority
from tests.integration.nodes import running_node
from tests.integration.support import Connection, database_now, end_of, key_of, store, submission
from tests.integration.test_queue_targets import QUICK, SOON, TWICE
from tests.waiting import eventually

from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Submission
from gnomon.node.run.targets.queue import Credentials, Message, NotPublished
from gnomon.node.run.targets.queue.rabbitmq import RabbitBroker
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.database import Database

MISSING = "no RabbitMQ is installed (Debian: apt-get install rabbitmq-server)"
# A broker that was killed may take long to have its queues back, and until then nothing is routed.
PATIENT = RetryPolicy(max_retries=50, base_seconds=1.0, max_seconds=1.0, jitter=False)


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
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(RabbitServer.PASSWORD)
    return file


def queues(server: RabbitServer, secret: Path, **values: Any) -> dict[str, QueueConnection]:
    made = {"url": server.url, "password_file": str(secret), **values}
    return {"orders": QueueConnection(**made)}


@asynccontextmanager
async def channel_to(server: RabbitServer) -> AsyncIterator[AbstractChannel]:
    url = server.url.replace("@", f":{server.PASSWORD}@")
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        yield channel


async def published(
    database: Database, connection: Connection, topic: str, retry_policy: RetryPolicy = SOON
) -> Submission:
    now = await database_now(connection)
    target = QueueTarget(f"queue://orders/{topic}", headers={"x-region": "eu"})
    new = submission(now, target=target, payload=b'{"n": 1}', retry_policy=retry_policy)
    await store(database, new)
    return new


async def last_error(connection: Connection, new: Submission) -> str:
    async def told() -> str | None:
        error: str | None = await connection.fetchval(
            "SELECT last_error FROM gnomon.task WHERE id = $1", new.id
        )
        return error

    return await eventually(told)


async def test_a_message_has_the_payload_and_the_headers(
    database_dsn: str,
    database: Database,
    connection: Connection,
    rabbit: RabbitServer,
    secret: Path,
) -> None:
    async with channel_to(rabbit) as channel:
        queue = await channel.declare_queue("created", durable=True)
        async with running_node(database_dsn, targets_queues=queues(rabbit, secret)):
            new = await published(database, connection, "created")
            assert (await end_of(connection, key_of(new)))["last_error"] is None
            message = await queue.get(no_ack=True)
            assert message is not None
            assert (message.body, message.message_id) == (b'{"n": 1}', str(new.id))
            assert message.headers["webhook-id"] == str(new.id)
            assert (message.headers["gnomon-attempt"], message.headers["x-region"]) == ("1", "eu")


async def test_a_message_that_no_queue_takes_is_tried_again_until_one_does(
    database_dsn: str,
    database: Database,
    connection: Connection,
    rabbit: RabbitServer,
    secret: Path,
) -> None:
    used = queues(rabbit, secret)
    async with running_node(database_dsn, targets_queues=used), channel_to(rabbit) as channel:
        lost = await published(database, connection, "nowhere", TWICE)
        early = await published(database, connection, "later")
        ended = await end_of(connection, key_of(lost))
        assert (ended["state"], ended["attempt"]) == (State.DEAD, 3)
        assert ended["last_error"] == (
            "queue://orders: no queue is bound to the default exchange by the routing key"
            " 'nowhere': declare a queue of that name, or correct the topic"
        )
        queue = await channel.declare_queue("later", durable=True)
        assert (await end_of(connection, key_of(early)))["state"] == State.COMPLETED
        message = await queue.get(no_ack=True)
        assert message is not None
        assert message.message_id == str(early.id)


async def test_a_message_waits_for_its_exchange_and_for_a_binding(
    database_dsn: str,
    database: Database,
    connection: Connection,
    rabbit: RabbitServer,
    secret: Path,
) -> None:
    used = queues(rabbit, secret, exchange="shop")
    async with (
        running_node(database_dsn, targets_queues=used, rules=QUICK),
        channel_to(rabbit) as channel,
    ):
        new = await published(database, connection, "created")
        assert await last_error(connection, new) == "queue://orders: there is no exchange 'shop'"
        exchange = await channel.declare_exchange("shop", durable=True)
        unbound = (
            "queue://orders: no queue is bound to the exchange 'shop' by the routing key"
            " 'created': bind one, or correct the topic"
        )

        async def told() -> bool:
            return await last_error(connection, new) == unbound

        await eventually(told)
        await (await channel.declare_queue("shop", durable=True)).bind(exchange, "created")
        assert (await end_of(connection, key_of(new)))["state"] == State.COMPLETED


@asynccontextmanager
async def broker_of(server: RabbitServer, user: str, exchange: str) -> AsyncIterator[RabbitBroker]:
    url = server.url.replace(RabbitServer.USER, user)
    broker = RabbitBroker(QueueConnection(url, exchange=exchange), Credentials("p", (None,) * 3))
    yield broker
    await broker.close()


async def outcome(broker: RabbitBroker, topic: str) -> tuple[str, bool]:
    """What came of a message, and whether the breaker counts it."""
    try:
        await broker.publish(topic, Message(str(uuid4()), b"{}", {}, None))
    except NotPublished as error:
        return str(error), error.unwell
    return "published", False


async def test_permissions_that_are_missing_are_named(rabbit: RabbitServer) -> None:
    """A topic that is forbidden says nothing of the others, not even of those beside it on the
    channel, which the broker ends."""
    rabbit.control("add_user", "narrow", "p")
    async with channel_to(rabbit) as channel:
        await (await channel.declare_queue("allowed", durable=True)).bind("amq.topic", "open")
    async with broker_of(rabbit, "narrow", "amq.topic") as broker:
        none = "there is no virtual host '/', or 'narrow' has no permission for it"
        assert await outcome(broker, "open") == (none, True)
    rabbit.control("set_permissions", "narrow", "", "^amq.topic$", "")
    rabbit.control("set_topic_permissions", "narrow", "amq.topic", "^open$", "")
    lacks = "the user of the connection lacks the permission to write: "
    async with broker_of(rabbit, "narrow", "amq.topic") as broker:
        topics = ["open", "closed", "open", "closed", "open"]
        said = await asyncio.gather(*(outcome(broker, topic) for topic in topics))
        assert [said[each] for each in (0, 2, 4)] == [("published", False)] * 3
        for why, unwell in (said[1], said[3]):
            assert why.startswith(lacks)
            assert "access to topic 'closed' in exchange 'amq.topic'" in why
            assert not unwell
    async with broker_of(rabbit, "narrow", "amq.direct") as broker:
        why, unwell = await outcome(broker, "open")
        assert why.startswith(lacks)
        assert "access to exchange 'amq.direct'" in why
        assert unwell  # no topic can be written to


async def test_credentials_are_rotated_without_a_restart(
    database_dsn: str,
    database: Database,
    connection: Connection,
    rabbit: RabbitServer,
    secret: Path,
) -> None:
    secret.write_text("wrong")
    async with channel_to(rabbit) as channel:
        await channel.declare_queue("rotated", durable=True)
    async with running_node(database_dsn, targets_queues=queues(rabbit, secret), rules=QUICK):
        new = await published(database, connection, "rotated")
        assert await last_error(connection, new) == (
            "queue://orders: the broker refuses the credentials of the connection"
        )
        secret.write_text(RabbitServer.PASSWORD)
        assert (await end_of(connection, key_of(new)))["finished_at"] is not None


async def test_certificates_of_a_private_authority_are_rotated_without_a_restart(
    database_dsn: str,
    database: Database,
    connection: Connection,
    rabbit: RabbitServer,
    secret: Path,
    tmp_path: Path,
) -> None:
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(Authority(tmp_path, "other").file.read_bytes())
    rabbit.authority.sign(tmp_path, "127.0.0.1", name="node")
    async with channel_to(rabbit) as channel:
        await channel.declare_queue("tls", durable=True)
    used = queues(
        rabbit,
        secret,
        url=rabbit.tls_url,
        ca_file=str(trusted),
        certificate_file=str(tmp_path / "node.crt"),
        key_file=str(tmp_path / "node.key"),
    )
    async with running_node(database_dsn, targets_queues=used, rules=QUICK):
        new = await published(database, connection, "tls")
        assert "certificate verify failed" in await last_error(connection, new)
        trusted.write_bytes(rabbit.authority.file.read_bytes())
        assert (await end_of(connection, key_of(new)))["finished_at"] is not None


async def test_a_broker_that_is_killed_in_the_middle_loses_nothing(
    database_dsn: str,
    database: Database,
    connection: Connection,
    rabbit: RabbitServer,
    secret: Path,
) -> None:
    async with channel_to(rabbit) as channel:
        await channel.declare_queue("killed", durable=True)
    async with running_node(database_dsn, targets_queues=queues(rabbit, secret), rules=QUICK):
        first = [await published(database, connection, "killed", PATIENT) for _ in range(20)]
        await end_of(connection, key_of(first[0]))
        rabbit.kill()
        new = first + [await published(database, connection, "killed", PATIENT) for _ in range(10)]
        await asyncio.to_thread(rabbit.start)  # the node goes on meanwhile
        for each in new:
            assert (await end_of(connection, key_of(each)))["finished_at"] is not None
    seen = set()
    async with channel_to(rabbit) as channel:
        queue = await channel.get_queue("killed")
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            seen.add(message.message_id)
    assert seen == {str(each.id) for each in new}
