"""A `PipeLink` through Kafka: an end reads one partition, and its channel names that.

Kafka does not know who reads. So workers beat, too, while they wait for an answer: to the gateway
that they have asked. Silence is counted in rounds.
"""

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from gnomon.clock import Clock, chance
from gnomon.pipe.broker_security import kafka_security
from gnomon.pipe.kafka.client import ClientEvents, KafkaClient, PipeRecord, Reading
from gnomon.pipe.kafka.topics import FORBIDDEN, PipeTopics, UnfitTopics, partitions_of
from gnomon.pipe.meeting.frames import MOST_CHANNEL, is_gateway_channel, is_worker_channel
from gnomon.pipe.meeting.link import (
    MOST_ASKED,
    MOST_OFFERED,
    PING,
    WATCH_SECONDS,
    LinkEnd,
    MessageTooLarge,
    PipeUnavailable,
    as_unavailable,
    check_size,
    unavailable,
)
from gnomon.pipe.meeting.presence import KnownGateways, Presence
from gnomon.settings import PipeSettings

_FAILURES = (KafkaException, UnfitTopics, OSError)
_HERE_ROUNDS = 3  # without a beat for so many, a gateway is not chosen
_NOBODY = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE})


class KafkaLink:
    """Its client has threads; here is what they are told, and what follows from what they say."""

    def __init__(self, settings: PipeSettings, channel: str, clock: Clock, end: LinkEnd) -> None:
        self._settings = settings
        self.channel = channel
        self._clock = clock
        self._end = end
        self._topics = PipeTopics(settings.namespace)
        self._patience = math.ceil(settings.silence_seconds / WATCH_SECONDS)  # rounds
        self._gateways = KnownGateways(_HERE_ROUNDS)
        self._workers = Presence(self._patience + 1)
        self._watched: set[str] = set()
        self._silent = 0  # rounds since anything was heard
        self._pending: set[asyncio.Future[KafkaError | None]] = set()
        self._opened: asyncio.Future[int] | None = None
        self._failed: asyncio.Future[None] | None = None
        self._client: KafkaClient | None = None
        self._open = False

    async def run(self) -> None:
        """Listen until that fails. Raises PipeUnavailable."""
        loop = asyncio.get_running_loop()
        self._opened, self._failed = loop.create_future(), loop.create_future()
        client = self._client = self._made()
        try:
            with as_unavailable(self._settings, _FAILURES):
                client.start()
                either: list[asyncio.Future[Any]] = [self._opened, self._failed]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if self._failed.done():
                    self._failed.result()
                await self._serve(self._opened.result())
        finally:
            try:
                self._close()
            finally:
                await client.stop()

    async def publish(self, channel: str, frame: bytes) -> bool:
        """Whether Kafka has it; who reads it is not known. Raises PipeUnavailable,
        MessageTooLarge."""
        check_size(self._settings, frame)
        if len(self._pending) >= MOST_ASKED:
            full = BlockingIOError(f"{MOST_ASKED} messages wait to be sent")
            raise unavailable(self._settings, full)
        told = self._put(channel, frame)
        if told is None:
            return False
        error = await asyncio.shield(told)
        if error is None:
            return True
        if error.code() in _NOBODY:
            return False
        raise self._not_sent(KafkaException(error))

    def offer(self, channel: str, frame: bytes) -> None:
        if self._open and len(self._pending) < MOST_OFFERED:
            with contextlib.suppress(PipeUnavailable):
                self._put(channel, frame)

    async def gateways(self) -> list[str]:
        """Those that have beaten lately. Raises PipeUnavailable."""
        found = await self._gateways.known(self._settings.silence_seconds)
        if not self._open:
            raise self._ended()
        return found

    # The connection

    def _made(self) -> KafkaClient:
        settings = self._settings
        assert settings.url is not None, "whoever makes a link has an address"
        config = kafka_security(settings.url, settings.password, settings, settings.sasl_mechanism)
        gateway = self._end.is_gateway
        topic = self._topics.calls if gateway else self._topics.answers
        besides = None if gateway else self._topics.beats

        def choose() -> int:
            return math.floor(chance() * partitions_of(topic, settings, config, make=gateway))

        reading = Reading(topic, self.channel.encode(), besides)
        events = ClientEvents(self._on_opened, self._on_records, self._on_failed)
        return KafkaClient(config, reading, choose, events, settings.silence_seconds)

    def _on_opened(self, partition: int) -> None:
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(partition)

    def _on_failed(self, error: Exception) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(_plain(error))
            self._failed.exception()  # seen, whatever ends the link first

    def _on_records(self, records: Sequence[PipeRecord]) -> None:
        if not self._open:
            return
        self._silent = 0
        for record in records:
            if record.topic == self._topics.beats:
                self._on_beat(record.value[:MOST_CHANNEL].decode(errors="replace"))
                continue
            if record.sender in self._watched:
                self._workers.heard(record.sender)
            if record.value != PING:
                self._end.hear(record.value)

    def _on_beat(self, gateway: str) -> None:
        if is_gateway_channel(self._settings.namespace, gateway):
            self._gateways.heard(gateway)
            self._end.beaten(gateway)

    async def _serve(self, partition: int) -> None:
        self.channel = f"{self.channel}.{partition}"
        self._open = True
        self._end.ready()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._until_failed())
            group.create_task(self._watch())
            group.create_task(self._gateways.acquaint(self._clock))

    async def _until_failed(self) -> None:
        assert self._failed is not None
        await asyncio.shield(self._failed)

    # Sending

    def _put(self, channel: str, frame: bytes) -> "asyncio.Future[KafkaError | None] | None":
        """None: no partition is named, so nobody is there. Raises PipeUnavailable."""
        number = channel.rpartition(".")[2]
        if not (number.isdecimal() and number.isascii() and len(number) < 6):
            return None
        is_worker = is_worker_channel(self._settings.namespace, channel)
        topic = self._topics.answers if is_worker else self._topics.calls
        return self._produce(topic, int(number), channel, frame)

    def _produce(
        self, topic: str, partition: int, key: str, value: bytes
    ) -> "asyncio.Future[KafkaError | None] | None":
        if not self._open or self._client is None:
            raise self._ended()
        try:
            told = self._client.produce(topic, partition, key.encode(), value, self.channel)
        except BufferError as error:
            raise unavailable(self._settings, error) from error
        except KafkaException as error:
            if error.args[0].code() in _NOBODY:
                return None
            raise self._not_sent(error) from error
        self._pending.add(told)
        told.add_done_callback(self._on_told)
        return told

    def _not_sent(self, error: KafkaException) -> PipeUnavailable:
        failed = unavailable(self._settings, _plain(error))
        return MessageTooLarge(str(failed)) if error.args[0].code() in _TOO_LARGE else failed

    def _on_told(self, told: "asyncio.Future[KafkaError | None]") -> None:
        """What Kafka did not take for a reason of its own ends the link: its client may know
        leaders and partitions of before."""
        self._pending.discard(told)
        if told.cancelled() or told.exception() is not None:
            return
        error = told.result()
        if error is not None and error.code() not in _NOBODY | _TOO_LARGE:
            self._on_failed(KafkaException(error))

    # Who is there

    async def _watch(self) -> None:
        while True:
            self._gateways.next_round()
            self._silent += 1
            if self._silent > self._longest_silence():
                raise TimeoutError("it is silent")
            if self._end.is_gateway:
                self._produce(self._topics.beats, 0, "", self.channel.encode())
                self._put(self.channel, PING)  # so that it hears something
                self._look()
            else:
                for gateway in set(self._end.watched()):
                    self._put(gateway, PING)  # this worker still waits
            await self._clock.sleep(WATCH_SECONDS)

    def _longest_silence(self) -> int:
        """Rounds. A gateway hears itself; a worker hears nothing where all gateways are away, and
        that is found out first. What it sends is confirmed within `silence_seconds` anyway."""
        return self._patience + 1 if self._end.is_gateway else 2 * self._patience + 2

    def _look(self) -> None:
        self._workers.next_round()
        watched = set(self._end.watched())
        for each in watched - self._watched:
            self._workers.heard(each)
        self._watched = watched
        gone = [each for each in watched if each not in self._workers]
        if gone:
            self._end.gone(gone)

    # Its end

    def _ended(self) -> PipeUnavailable:
        return unavailable(self._settings, ConnectionResetError("the connection has ended"))

    def _close(self) -> None:
        self._open = False
        self._gateways.close()
        for each in (self._failed, self._opened):
            if each is not None and not each.done():
                each.cancel()
        for told in list(self._pending):
            if not told.done():  # else it was confirmed in this turn of the loop
                told.set_exception(self._ended())
                told.exception()  # seen: not everything that is sent is waited for


def _plain(error: Exception) -> Exception:
    """An error of the client, in its words alone."""
    known = error.args[0] if isinstance(error, KafkaException) else None
    if not isinstance(known, KafkaError):
        return error
    may_not = f"{known.str()}: allow its user what Kafka's ACLs forbid"
    return ConnectionError(may_not if known.code() in FORBIDDEN else known.str())
