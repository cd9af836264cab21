"""The producer of Kafka where there is no server: made once, and what is wrong is said."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from tests.waiting import eventually

from gnomon.node.run.targets.queue import Credentials, Message, NotPublished
from gnomon.node.run.targets.queue.kafka import KafkaBroker
from gnomon.settings.queues import QueueConnection
from gnomon.settings.targets import TargetSettings

MESSAGE = Message("1", b"{}", {}, None)


def broker(url: str, **values: Any) -> KafkaBroker:
    return KafkaBroker(QueueConnection(url, **values), Credentials(None, (None, None, None)))


def producers() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "kafka"}


async def test_a_producer_that_broke_is_replaced_once() -> None:
    others = producers()
    kafka = broker("kafka://127.0.0.1:1")
    waiting = [asyncio.create_task(kafka.publish("t", MESSAGE))]
    await asyncio.sleep(0)
    broken = kafka._running
    assert broken is not None
    broken.broken = True
    waiting += [asyncio.create_task(kafka.publish("t", MESSAGE)) for _ in range(5)]

    async def all_wait() -> bool:
        running = kafka._running
        return running not in (None, broken) and len(running._pending) == 5

    try:
        await eventually(all_wait, 5.0)
        assert len(producers() - others) == 1
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await kafka.close()
    assert producers() == others


async def test_settings_that_the_client_does_not_take_are_told(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_text("none")
    others = producers()
    for kafka in (
        broker("kafkas://127.0.0.1:1", ca_file=str(authorities)),
        broker("kafka://gnomon@127.0.0.1:1"),  # its password_file is empty
    ):
        with pytest.raises(NotPublished, match="settings of the connection cannot be used: ") as e:
            await kafka.publish("t", MESSAGE)
        assert e.value.again
        await kafka.close()
    assert producers() == others


def test_a_user_needs_a_password() -> None:
    told = r"queues\.orders must name a file with the password of its user in password_file"
    for scheme in ("kafka", "kafkas"):
        url = f"{scheme}://gnomon@a.example.com:9093,b.example.com:9093"
        with pytest.raises(ValueError, match=told):
            TargetSettings(queues={"orders": QueueConnection(url)})
        TargetSettings(queues={"orders": QueueConnection(url, password_file="/run/secrets/kafka")})


async def test_a_topic_that_is_forbidden_says_nothing_of_the_others() -> None:
    kafka = broker("kafka://127.0.0.1:1")
    waiting = [asyncio.create_task(kafka.publish(topic, MESSAGE)) for topic in ("a", "b")]
    await asyncio.sleep(0)
    running = kafka._running
    assert running is not None
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    running._on_error(error)
    problem = running._problem("a", error)
    assert (problem.again, problem.unwell, running.broken) == (True, False, False)
    assert "'a'" in str(problem)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await kafka.close()


async def test_a_topic_that_is_not_there_may_come_and_a_name_that_none_can_have_may_not() -> None:
    kafka = broker("kafka://127.0.0.1:1")
    waiting = asyncio.create_task(kafka.publish("a", MESSAGE))
    await asyncio.sleep(0)
    running = kafka._running
    assert running is not None
    for code, again in (
        (KafkaError._UNKNOWN_TOPIC, True),
        (KafkaError._UNKNOWN_PARTITION, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, True),
        (KafkaError.TOPIC_EXCEPTION, False),
    ):
        problem = running._problem("a", KafkaError(code))
        assert (problem.again, problem.unwell) == (again, False)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await kafka.close()
