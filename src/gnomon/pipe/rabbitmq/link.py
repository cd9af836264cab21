"""A `PipeLink` through RabbitMQ: an exclusive, bounded queue, consumed without acknowledgements.

Calls, answers and beats have an exchange each, so that a user of RabbitMQ can be allowed to send
calls without hearing those of others. Gateways make the exchanges; workers only use them.
"""

import asyncio
import contextlib
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import aio_pika
from aio_pika import exceptions
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    FieldValue,
)
from yarl import URL

from gnomon.clock import Clock
from gnomon.pipe.broker_security import tls_context
from gnomon.pipe.meeting.frames import (
    LARGEST_MESSAGE,
    MOST_CHANNEL,
    answers_name,
    beat_channel,
    calls_name,
    is_gateway_channel,
    is_worker_channel,
)
from gnomon.pipe.meeting.link import (
    MOST_ASKED,
    MOST_OFFERED,
    PING,
    WATCH_SECONDS,
    LinkEnd,
    PipeUnavailable,
    UnfitBroker,
    as_unavailable,
    check_size,
    times_cancelled,
    unavailable,
)
from gnomon.pipe.meeting.presence import KnownGateways
from gnomon.settings import PipeSettings

_MOST_UNCONFIRMED = 500
_MOST_WATCHED = 500  # channels that are asked about in a round, in turn
_HERE_ROUNDS = 3  # without a beat for so many, a gateway is not chosen
_CLOSE_SECONDS = 1.0
_NOBODY = "nobody"  # has no queue
_LARGEST_SECONDS = 30.0  # for a message of the largest size
# Of a queue whose end does not read: what is beyond is refused, and its sender knows.
_BOUNDS: dict[str, FieldValue] = {
    "x-max-length": MOST_ASKED,
    "x-max-length-bytes": 64 << 20,
    "x-overflow": "reject-publish",
}
_FAILURES = (exceptions.AMQPError, RuntimeError, OSError)


class _Fate(Enum):
    """What became of a message."""

    TAKEN = 1
    REFUSED = 2  # the queue is full
    RETURNED = 3  # there is no such queue


class _Outgoing(NamedTuple):
    """A message on its way to the broker."""

    exchange: str
    channel: str
    frame: bytes
    fate: "asyncio.Future[_Fate] | None"  # None: nobody waits for it


class RabbitLink:
    """Tasks of `run` alone call the client of RabbitMQ."""

    def __init__(self, settings: PipeSettings, channel: str, clock: Clock, end: LinkEnd) -> None:
        self._settings = settings
        self.channel = channel
        self._clock = clock
        self._end = end
        self._asked: asyncio.Queue[_Outgoing] = asyncio.Queue()
        self._unconfirmed = asyncio.Semaphore(_MOST_UNCONFIRMED)
        self._open = False
        self._gateways = KnownGateways(_HERE_ROUNDS)
        self._ping: asyncio.Future[_Fate] | None = None
        self._missed = 0  # rounds that a ping is on its way
        self._watched: list[str] = []  # those that are asked about next

    async def run(self) -> None:
        """Listen until that fails. Raises PipeUnavailable."""
        cancelled = times_cancelled()
        try:
            with as_unavailable(self._settings, _FAILURES):
                await self._listen_and_serve(cancelled)
        except asyncio.CancelledError as error:
            if times_cancelled() > cancelled:
                raise
            # The client of RabbitMQ cancels what waits for a server that has fallen silent.
            reset = ConnectionResetError("the connection was closed")
            raise unavailable(self._settings, reset) from error
        finally:
            self._close()

    async def publish(self, channel: str, frame: bytes) -> bool:
        """Whether a queue has taken it. Raises PipeUnavailable, MessageTooLarge."""
        check_size(self._settings, frame)
        if not self._open:
            raise self._ended()
        if self._asked.qsize() >= MOST_ASKED:
            error = BlockingIOError(f"{MOST_ASKED} messages wait to be sent")
            raise unavailable(self._settings, error)
        return await self._put(channel, frame) is _Fate.TAKEN

    def offer(self, channel: str, frame: bytes) -> None:
        if self._open and self._asked.qsize() < MOST_OFFERED:
            self._asked.put_nowait(_Outgoing(self._exchange_of(channel), channel, frame, None))

    async def gateways(self) -> list[str]:
        """Those that have beaten lately. Raises PipeUnavailable."""
        found = await self._gateways.known(self._settings.silence_seconds)
        if not self._open:
            raise self._ended()
        return found

    # The connection

    async def _listen_and_serve(self, cancelled: int) -> None:
        """`cancelled`: how often this task was, before."""
        async with contextlib.AsyncExitStack() as stack:
            connection = await self._connected()
            stack.push_async_callback(_close, connection)
            async with asyncio.timeout(self._settings.silence_seconds):
                channel = await connection.channel(on_return_raises=True)
                await self._listen(channel)
            if times_cancelled() > cancelled:
                raise asyncio.CancelledError  # the client of RabbitMQ has swallowed it
            await self._serve(connection, channel)

    async def _connected(self) -> AbstractConnection:
        settings, options = self._settings, dict[str, Any]()
        assert settings.url is not None, "whoever makes a link has an address"
        if settings.url.startswith("amqps:"):
            options["ssl_context"] = tls_context(settings)
        connection: AbstractConnection = await aio_pika.connect(
            URL(settings.url),
            timeout=settings.silence_seconds,
            heartbeat=max(1, round(settings.silence_seconds)),
            **options,
        )
        return connection

    async def _serve(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        sender = await channel.get_underlay_channel()
        if not self._end.largest_tried:
            await self._try_largest(connection, sender)
        self._open = True
        async with asyncio.TaskGroup() as group:
            group.create_task(_until_closed(channel))
            group.create_task(self._send(sender))
            group.create_task(self._watch(connection))
            group.create_task(self._gateways.acquaint(self._clock))

    async def _listen(self, channel: AbstractChannel) -> None:
        """Have a queue of its own, and take what comes. Nothing is acknowledged: what is lost with
        a connection is said again, and acknowledgements would wait while RabbitMQ blocks."""
        namespace, gateway = self._settings.namespace, self._end.is_gateway
        if gateway:
            for name in (calls_name(namespace), answers_name(namespace)):
                await channel.declare_exchange(name, aio_pika.ExchangeType.DIRECT)
            await channel.declare_exchange(beat_channel(namespace), aio_pika.ExchangeType.FANOUT)
        queue = await channel.declare_queue(
            self.channel, exclusive=True, auto_delete=True, arguments=dict(_BOUNDS)
        )
        try:
            await queue.bind(self._exchange_of(self.channel), self.channel)
        except exceptions.ChannelNotFoundEntity as error:
            why = LookupError("no gateway has connected to it yet: is an API process running?")
            raise unavailable(self._settings, why) from error
        if not gateway:
            await queue.bind(beat_channel(namespace))
        await queue.consume(self._heard, no_ack=True, exclusive=True)

    async def _heard(self, message: AbstractIncomingMessage) -> None:
        if not self._open:
            return
        if message.exchange != beat_channel(self._settings.namespace):
            if message.body != PING:
                self._end.hear(message.body)
            return
        gateway = message.body[:MOST_CHANNEL].decode(errors="replace")
        if is_gateway_channel(self._settings.namespace, gateway):
            self._gateways.heard(gateway)
            self._end.beaten(gateway)

    # Sending

    async def _try_largest(self, connection: AbstractConnection, sender: Any) -> None:
        """Send nobody a message of the largest size. RabbitMQ cuts off whoever sends more than it
        takes, and does not say before how much that is. Raises UnfitBroker, TimeoutError,
        ConnectionAbortedError."""
        try:
            await sender.basic_publish(
                bytes(LARGEST_MESSAGE),
                exchange=calls_name(self._settings.namespace),
                routing_key=_NOBODY,
                timeout=_LARGEST_SECONDS,
            )
        except exceptions.ChannelPreconditionFailed as error:
            raise UnfitBroker(
                f"RabbitMQ at {self._settings.where} takes no messages of {LARGEST_MESSAGE} bytes:"
                f" set its max_message_size to that, or more ({error})"
            ) from error
        except TimeoutError as error:
            await _check_unblocked(connection)
            self._end.largest_tried = True  # as far as it can be
            why = (
                f"it has not taken {LARGEST_MESSAGE} bytes in {_LARGEST_SECONDS} s: it is slow, or"
            )
            raise TimeoutError(f"{why} the network is; the next connection does without") from error
        self._end.largest_tried = True

    def _exchange_of(self, channel: str) -> str:
        namespace = self._settings.namespace
        is_worker = is_worker_channel(namespace, channel)
        return answers_name(namespace) if is_worker else calls_name(namespace)

    def _put(self, channel: str, frame: bytes) -> "asyncio.Future[_Fate]":
        fate: asyncio.Future[_Fate] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(_Outgoing(self._exchange_of(channel), channel, frame, fate))
        return fate

    async def _send(self, sender: Any) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await self._unconfirmed.acquire()
                asked = await self._asked.get()
                sending = group.create_task(self._send_one(sender, asked))
                # It may be cancelled before it starts.
                sending.add_done_callback(partial(self._on_sent, asked))

    async def _send_one(self, sender: Any, asked: _Outgoing) -> None:
        try:
            fate = await self._fate_of(sender, asked)
        except BaseException as error:
            self._fail(asked, error)
            raise
        finally:
            self._unconfirmed.release()
        if asked.fate is not None and not asked.fate.done():
            asked.fate.set_result(fate)

    def _on_sent(self, asked: _Outgoing, _: "asyncio.Task[None]") -> None:
        self._fail(asked, self._ended())

    async def _fate_of(self, sender: Any, asked: _Outgoing) -> _Fate:
        beats = asked.exchange == beat_channel(self._settings.namespace)
        try:
            await sender.basic_publish(
                asked.frame,
                exchange=asked.exchange,
                routing_key=asked.channel,
                mandatory=not beats,
                timeout=self._settings.silence_seconds,
                wait=False,  # for the socket alone: its confirmation is waited for
            )
        except exceptions.PublishError:
            return _Fate.RETURNED
        except exceptions.DeliveryError:
            return _Fate.REFUSED
        except exceptions.ChannelPreconditionFailed:
            self._end.largest_tried = False  # it takes less than it did
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ConnectionResetError("the connection was closed") from error
        return _Fate.TAKEN

    # Who is there

    async def _watch(self, connection: AbstractConnection) -> None:
        """Prove that what is sent is taken, and find out who is gone."""
        first = await self._put(self.channel, PING)
        if first is not _Fate.TAKEN:
            raise ConnectionResetError("its own queue is gone")
        self._end.ready()
        while True:
            await _check_unblocked(connection)
            self._check_ping()
            self._beat()
            self._gateways.next_round()
            self._look()
            await self._clock.sleep(WATCH_SECONDS)

    def _check_ping(self) -> None:
        if self._ping is not None and not self._ping.done():
            self._missed += 1
            if self._missed * WATCH_SECONDS >= self._settings.silence_seconds:
                raise TimeoutError("it is silent")
            return
        if self._ping is not None and self._ping.result() is _Fate.RETURNED:
            raise ConnectionResetError("its own queue is gone")
        self._missed, self._ping = 0, self._put(self.channel, PING)

    def _beat(self) -> None:
        if self._end.is_gateway:
            beats = beat_channel(self._settings.namespace)
            self._asked.put_nowait(_Outgoing(beats, "", self.channel.encode(), None))

    def _look(self) -> None:
        watched = set(self._end.watched())
        self._watched = [each for each in self._watched if each in watched]
        self._watched = self._watched or sorted(watched)
        asked, self._watched = self._watched[:_MOST_WATCHED], self._watched[_MOST_WATCHED:]
        for channel in asked:
            self._put(channel, PING).add_done_callback(partial(self._tell, channel))

    def _tell(self, channel: str, fate: "asyncio.Future[_Fate]") -> None:
        """A queue that is full is of an end that does not read."""
        if fate.cancelled() or fate.exception() is not None:
            return
        if fate.result() is not _Fate.TAKEN:
            self._end.gone([channel])

    # Its end

    def _ended(self) -> PipeUnavailable:
        return unavailable(self._settings, ConnectionResetError("the connection has ended"))

    def _close(self) -> None:
        self._open = False
        self._gateways.close()
        while not self._asked.empty():
            self._fail(self._asked.get_nowait(), self._ended())

    def _fail(self, asked: _Outgoing, error: BaseException) -> None:
        if asked.fate is not None and not asked.fate.done():
            asked.fate.set_exception(unavailable(self._settings, error))
            asked.fate.exception()  # seen: a ping is waited for by nobody


async def _until_closed(channel: AbstractChannel) -> None:
    await channel.closed()
    raise ConnectionResetError("the connection was closed")


async def _check_unblocked(connection: AbstractConnection) -> None:
    """Raises ConnectionAbortedError where RabbitMQ has said that it takes no messages."""
    assert connection.transport is not None
    try:
        async with asyncio.timeout(0):
            await connection.transport.connection.ready()
    except TimeoutError:
        why = "it takes no messages (connection.blocked): its memory or disk alarm is on"
        raise ConnectionAbortedError(why) from None


async def _close(connection: AbstractConnection) -> None:
    with contextlib.suppress(*_FAILURES):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await connection.close()
