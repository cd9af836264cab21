"""The client of Kafka, in threads: what it says is taken to the event loop, in batches."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from gnomon.pipe.kafka.topics import MOST_BYTES, UnfitTopics

_POLL_SECONDS = 0.2
_TOGETHER = 500  # records, or confirmations
_STOP_SECONDS = 5.0
_SENDER = "from"
_QUEUED_KILOBYTES = 64 * 1024
# After these the client would go on in vain.
_HOPELESS = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


_NEW = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)


class PipeRecord(NamedTuple):
    """What has come."""

    topic: str
    value: bytes
    sender: str | None


class Confirmation(NamedTuple):
    """What became of a message."""

    told: "asyncio.Future[KafkaError | None]"
    error: KafkaError | None


class ClientEvents(NamedTuple):
    """Called in the event loop."""

    opened: Callable[[int], None]  # it reads this partition
    records: Callable[[Sequence[PipeRecord]], None]
    failed: Callable[[Exception], None]


class Reading(NamedTuple):
    """What is read."""

    topic: str  # one partition of it
    key: bytes  # and of that what has this key, with the number of the partition
    besides: str | None  # the first partition of another topic, all of it


class KafkaClient:
    """A consumer without a group and a producer, from `start` to `stop`."""

    def __init__(
        self,
        config: dict[str, Any],
        reading: Reading,
        choose: Callable[[], int],
        events: ClientEvents,
        seconds: float,
    ) -> None:
        """`choose`: gives the partition to read, and may block."""
        self._config = {**config, "error_cb": self._on_error}
        self._reading = reading
        self._choose = choose
        self._events = events
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._confirmed: list[Confirmation] = []
        self._producer: Producer | None = None
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._producer = Producer(self._config | _sending(self._seconds))
        for work in (self._confirm, self._consume):
            thread = threading.Thread(target=work, name="kafka-pipe", daemon=True)
            self._threads.append(thread)
            thread.start()

    async def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join, _STOP_SECONDS)

    def produce(
        self, topic: str, partition: int, key: bytes, value: bytes, sender: str
    ) -> "asyncio.Future[KafkaError | None]":
        """Gives what goes wrong. Raises KafkaException, BufferError."""
        told: asyncio.Future[KafkaError | None] = self._loop.create_future()
        assert self._producer is not None

        def confirmed(error: KafkaError | None, _: Message) -> None:
            self._confirmed.append(Confirmation(told, error))

        self._producer.produce(
            topic,
            value=value,
            key=key,
            partition=partition,
            headers=[(_SENDER, sender.encode())],
            on_delivery=confirmed,
        )
        return told

    # In threads

    def _confirm(self) -> None:
        assert self._producer is not None
        while not self._stopped.is_set():
            self._producer.poll(_POLL_SECONDS)
            if self._confirmed:
                confirmed, self._confirmed = self._confirmed, []
                self._tell(_settle, confirmed)
        self._producer.purge()
        self._producer.poll(0)

    def _consume(self) -> None:
        try:
            partition = self._choose()
            consumer = Consumer(self._config | _RECEIVING)
            try:
                consumer.assign(self._from_the_end(consumer, partition))
                self._tell(self._events.opened, partition)
                own = self._reading.key + b".%d" % partition
                while not self._stopped.is_set():
                    self._receive(consumer, own)
            finally:
                consumer.close()
        except (KafkaException, UnfitTopics, ValueError) as error:
            self._tell(self._events.failed, error)

    def _from_the_end(self, consumer: Consumer, partition: int) -> list[TopicPartition]:
        """The offset is asked for, so that all is read that is sent from now on."""
        read = [TopicPartition(self._reading.topic, partition)]
        if self._reading.besides is not None:
            read.append(TopicPartition(self._reading.besides, 0))
        for each in read:
            each.offset = self._end_of(consumer, each)
        return read

    def _end_of(self, consumer: Consumer, read: TopicPartition) -> int:
        """Of a topic that was just made, not every broker knows."""
        for _ in range(round(self._seconds / _POLL_SECONDS)):
            try:
                return consumer.get_watermark_offsets(read, timeout=self._seconds)[1]
            except KafkaException as error:
                if error.args[0].code() not in _NEW or self._stopped.wait(_POLL_SECONDS):
                    raise
        raise UnfitTopics(f"the topic {read.topic} has no leader")

    def _receive(self, consumer: Consumer, own: bytes) -> None:
        first = consumer.poll(_POLL_SECONDS)
        if first is None:
            return
        records = []
        for message in (first, *consumer.consume(_TOGETHER, 0.0)):
            error = message.error()
            if error is not None and error.code() in _HOPELESS:
                raise KafkaException(error)
            if error is None and (message.topic() == self._reading.besides or message.key() == own):
                records.append(_record(message))
        if records:
            self._hand_over(records)

    def _hand_over(self, records: Sequence[PipeRecord]) -> None:
        """Wait until they are taken: meanwhile the rest waits in the client, which has bounds."""
        taken = threading.Event()

        def take() -> None:
            taken.set()
            self._events.records(records)

        self._tell(take)
        while not (taken.wait(_POLL_SECONDS) or self._stopped.is_set()):
            pass

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in _HOPELESS or error.fatal():
            self._tell(self._events.failed, KafkaException(error))

    def _tell(self, what: Callable[..., None], *given: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *given)
        except RuntimeError:  # the loop has been closed meanwhile
            self._stopped.set()


def _record(message: Message) -> PipeRecord:
    headers = dict(message.headers() or ())
    sender = headers.get(_SENDER)
    name = sender.decode(errors="replace") if isinstance(sender, bytes) else None
    return PipeRecord(message.topic() or "", message.value() or b"", name)


def _settle(confirmed: Sequence[Confirmation]) -> None:
    for each in confirmed:
        if not each.told.done():
            each.told.set_result(each.error)


# No group is joined, and nothing committed: what is missed is said again.
_RECEIVING = {
    "group.id": "gnomon-pipe",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "latest",
    "allow.auto.create.topics": False,
    "fetch.error.backoff.ms": 100,
    "fetch.message.max.bytes": MOST_BYTES,
    "queued.max.messages.kbytes": _QUEUED_KILOBYTES,
}


def _sending(seconds: float) -> dict[str, Any]:
    """Nothing is sent twice: what fails is said again by whoever wanted it said."""
    return {
        "acks": 1,
        "message.send.max.retries": 0,
        "message.timeout.ms": round(seconds * 1000),
        "linger.ms": 0,
        "message.max.bytes": MOST_BYTES,
        "queue.buffering.max.kbytes": 2 * _QUEUED_KILOBYTES,
        "topic.metadata.refresh.interval.ms": 5_000,
    }
