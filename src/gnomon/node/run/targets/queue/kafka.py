"""Kafka: a message is a record, its headers are headers. The producer is idempotent, and a message
is published when all replicas in sync have it."""

import asyncio
import threading
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from gnomon.node.run.targets.queue import Credentials, Message, NotPublished
from gnomon.pipe.broker_security import kafka_security
from gnomon.settings.queues import QueueConnection

_CONFIRM_SECONDS = 10.0
_NEW_TOPIC_SECONDS = 2.0  # for a topic that is just being made to be known
_POLL_SECONDS = 0.2
_CREDENTIALS = "the broker refuses the credentials of the connection"
_REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_HOPELESS = _REFUSED | {KafkaError._SSL}
_NO_TOPIC = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
# Of the message, and not of the broker.
_WRONG = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError._INVALID_ARG,
    }
)


class KafkaBroker:
    """`Broker` for Kafka 2.1 and later. The client has threads of its own; one of ours takes its
    answers to the loop."""

    def __init__(self, settings: QueueConnection, credentials: Credentials) -> None:
        self._config = _config(settings, credentials)
        self._running: _Running | None = None

    async def connect(self) -> None:
        """Nothing: the client connects by itself, for what it has in its queue."""

    async def publish(self, topic: str, message: Message) -> str:
        before = running = self._running
        if running is None or running.broken:
            # Without a pause in between: others who publish at the same time find this one.
            running = self._running = _Running(self._config)
            if before is not None:
                await before.stop()
        return await running.publish(topic, message)

    async def close(self) -> None:
        if self._running is not None:
            await self._running.stop()


class _Running:
    """A producer, until it breaks or is stopped."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Raises NotPublished."""
        self.broken = False
        self._loop = asyncio.get_running_loop()
        self._pending: set[asyncio.Future[str]] = set()
        self._last_error = ""  # of the connection
        self._stopped = threading.Event()
        try:
            self._producer = Producer({**config, "error_cb": self._on_error})
        except KafkaException as error:
            why = f"the settings of the connection cannot be used: {error.args[0].str()}"
            raise NotPublished(why[:500]) from error
        self._thread = threading.Thread(target=self._poll, name="kafka", daemon=True)
        self._thread.start()

    async def publish(self, topic: str, message: Message) -> str:
        told: asyncio.Future[str] = self._loop.create_future()
        self._pending.add(told)
        try:
            self._producer.produce(
                topic,
                value=message.body,
                key=None if message.key is None else message.key.encode(),
                headers=[(name, value.encode()) for name, value in message.headers.items()],
                on_delivery=lambda error, sent: self._tell(told, topic, error, sent),
            )
            return await told
        except BufferError as error:
            raise NotPublished("too many messages wait for the broker") from error
        except KafkaException as error:
            raise self._problem(topic, error.args[0]) from error
        finally:
            self._pending.discard(told)

    async def stop(self) -> None:
        self._stopped.set()
        await asyncio.to_thread(self._thread.join)

    def _poll(self) -> None:
        while not self._stopped.is_set():
            self._producer.poll(_POLL_SECONDS)
        self._producer.purge()
        self._producer.poll(0)

    def _tell(
        self, told: "asyncio.Future[str]", topic: str, error: KafkaError | None, sent: Any
    ) -> None:
        """In the thread of ours."""
        if error is None:
            given = f"{sent.topic()}[{sent.partition()}]@{sent.offset()}"
            self._loop.call_soon_threadsafe(_set, told, given)
        else:
            if error.fatal():
                self.broken = True
            self._loop.call_soon_threadsafe(_set, told, self._problem(topic, error))

    def _on_error(self, error: KafkaError) -> None:
        """In the thread of ours: what happens to connections, and to the producer."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error.str()
        if error.code() in _HOPELESS or error.fatal():
            # The client would go on until the messages are too old.
            self.broken = True
            why = _CREDENTIALS if error.code() in _REFUSED else error.str()
            self._loop.call_soon_threadsafe(self._fail_all, why)

    def _fail_all(self, why: str) -> None:
        for told in list(self._pending):
            _set(told, NotPublished(why))

    def _problem(self, topic: str, error: KafkaError) -> NotPublished:
        code = error.code()
        if code in _REFUSED:
            return NotPublished(_CREDENTIALS)
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            why = f"the broker does not let the connection write to the topic {topic!r}"
            return NotPublished(why, unwell=False)
        if code in _NO_TOPIC:
            return NotPublished(f"there is no topic {topic!r}", unwell=False)
        if code == KafkaError.TOPIC_EXCEPTION:
            why = f"{topic!r} is no name that a topic can have"
            return NotPublished(why, again=False, unwell=False)
        if code in _WRONG:
            why = f"the broker refuses the message: {error.str()}"
            return NotPublished(why, again=False, unwell=False, wrong=True)
        if code == KafkaError._MSG_TIMED_OUT:
            why = f": {self._last_error}" if self._last_error else ""
            return NotPublished(f"no confirmation within {_CONFIRM_SECONDS:g} s{why}"[:500])
        return NotPublished(error.str()[:500])


def _set(told: "asyncio.Future[str]", outcome: str | NotPublished) -> None:
    if told.done():
        return  # nobody waits any more
    if isinstance(outcome, NotPublished):
        told.set_exception(outcome)
    else:
        told.set_result(outcome)


def _config(settings: QueueConnection, credentials: Credentials) -> dict[str, Any]:
    return {
        **kafka_security(settings.url, credentials.password, settings, settings.sasl_mechanism),
        "enable.idempotence": True,  # and so: all replicas in sync, in order, no repetition
        "delivery.timeout.ms": round(_CONFIRM_SECONDS * 1000),
        "topic.metadata.propagation.max.ms": round(_NEW_TOPIC_SECONDS * 1000),
        "linger.ms": 5,
    }
