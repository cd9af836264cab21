"""A `PipeLink` through Redis: channels that are subscribed to, and others that are published to."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, NamedTuple

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import Pipeline, PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gnomon.clock import Clock
from gnomon.pipe.meeting.frames import (
    LARGEST_MESSAGE,
    MOST_CHANNEL,
    beat_channel,
    gateway_channel,
)
from gnomon.pipe.meeting.link import (
    MOST_ASKED,
    MOST_OFFERED,
    PING,
    WATCH_SECONDS,
    LinkEnd,
    as_unavailable,
    check_size,
    times_cancelled,
    unavailable,
)
from gnomon.settings import PipeSettings

_MOST_TOGETHER = 100  # commands that are sent together
_MOST_WATCHED = 5_000  # channels that are asked about
_LARGEST = "proto-max-bulk-len"  # the setting of the server
_FAILURES = (exceptions.RedisError, OSError)


class _Asked(NamedTuple):
    """A command on its way to the server."""

    command: Callable[[Pipeline], object]
    result: "asyncio.Future[Any] | None"  # None: nobody waits for it


class RedisLink:
    """What others ask of the server is sent by a task of `run`, and together: so nobody who gives
    up interrupts the client of Redis, which does not always notice."""

    def __init__(self, settings: PipeSettings, channel: str, clock: Clock, end: LinkEnd) -> None:
        self._settings = settings
        self.channel = channel
        self._clock = clock
        self._end = end
        self._redis = _client(settings)
        self._asked: asyncio.Queue[_Asked] = asyncio.Queue()
        self._open = False

    async def run(self) -> None:
        """Listen until that fails. Raises PipeUnavailable."""
        cancelled = times_cancelled()
        try:
            with as_unavailable(self._settings, _FAILURES):
                async with self._redis, self._redis.pubsub() as listening:
                    await listening.subscribe(self.channel, beat_channel(self._settings.namespace))
                    if self._end.is_gateway:
                        await self._check_largest()
                    if times_cancelled() > cancelled:
                        raise asyncio.CancelledError  # the client of Redis has swallowed it
                    self._open = True
                    async with asyncio.TaskGroup() as group:
                        for work in (self._listen(listening), self._send(), self._watch()):
                            group.create_task(self._until_end(work))
        finally:
            self._close()

    async def publish(self, channel: str, frame: bytes) -> bool:
        """Whether anybody has received it. Raises PipeUnavailable, MessageTooLarge."""
        check_size(self._settings, frame)
        return bool(await self._ask(lambda server: server.publish(channel, frame)))

    def offer(self, channel: str, frame: bytes) -> None:
        """Publish it unless others have to wait for it, and without knowing what became of it."""
        if self._open and self._asked.qsize() < MOST_OFFERED:
            self._asked.put_nowait(_Asked(lambda server: server.publish(channel, frame), None))

    async def gateways(self) -> list[str]:
        """The channels of living gateways. Raises PipeUnavailable."""
        pattern = gateway_channel(self._settings.namespace, "*")
        found = await self._ask(lambda server: server.pubsub_channels(pattern))
        return sorted(each.decode() for each in found if each.isascii())

    async def _check_largest(self) -> None:
        """Redis cuts off whoever sends more than it takes. Where it may not be asked how much that
        is, large messages will show it. Raises PipeUnavailable."""
        try:
            found = await self._redis.config_get(_LARGEST)
        except exceptions.ResponseError:
            return
        most = int(found.get(_LARGEST) or LARGEST_MESSAGE)
        if most < LARGEST_MESSAGE:
            why = f"it takes messages of {most} bytes: set its {_LARGEST} to {LARGEST_MESSAGE}"
            raise unavailable(self._settings, ValueError(f"{why}, or more"))

    async def _ask(self, command: Callable[[Pipeline], object]) -> Any:
        if not self._open:
            raise unavailable(self._settings, ConnectionResetError("the connection has ended"))
        if self._asked.qsize() >= MOST_ASKED:
            raise unavailable(
                self._settings, BlockingIOError(f"{MOST_ASKED} messages wait to be sent")
            )
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(_Asked(command, result))
        return await result

    async def _until_end(self, work: Coroutine[Any, Any, None]) -> None:
        """With one of them all end, also one whose cancelling the client of Redis has swallowed."""
        try:
            await work
        finally:
            self._open = False

    async def _send(self) -> None:
        while self._open:
            asked = [await self._asked.get()]
            try:
                while len(asked) < _MOST_TOGETHER and not self._asked.empty():
                    asked.append(self._asked.get_nowait())
                server = self._redis.pipeline(transaction=False)
                for each in asked:
                    each.command(server)
                results = await server.execute(raise_on_error=False)
            except BaseException as error:
                self._fail(asked, error)
                raise
            for each, result in zip(asked, results, strict=True):
                if isinstance(result, Exception):
                    self._fail([each], result)
                elif each.result is not None and not each.result.done():
                    each.result.set_result(result)

    async def _listen(self, listening: PubSub) -> None:
        """Silence is counted in reads, not by a clock: this process may have stood still."""
        missed, ready = 0, False
        own, beats = self.channel.encode(), beat_channel(self._settings.namespace).encode()
        while self._open:
            message = await listening.get_message(timeout=WATCH_SECONDS)
            if message is None:
                missed += 1
                if missed * WATCH_SECONDS >= self._settings.silence_seconds:
                    raise TimeoutError("it is silent")
                continue
            missed = 0
            if message["type"] != "message":
                if not ready:  # it confirms that it listens
                    ready = True
                    self._end.ready()
            elif message["channel"] == beats:
                self._end.beaten(message["data"][:MOST_CHANNEL].decode(errors="replace"))
            elif message["channel"] == own and message["data"] != PING:
                self._end.hear(message["data"])

    async def _watch(self) -> None:
        """Prove that what is published is heard, and find out who is gone."""
        beats = beat_channel(self._settings.namespace)
        while self._open:
            await self._clock.sleep(WATCH_SECONDS)
            if not await self.publish(self.channel, PING):
                raise ConnectionResetError("its end of the connection is gone")
            if self._end.is_gateway:
                await self.publish(beats, self.channel.encode())
            watched = list(self._end.watched())[:_MOST_WATCHED]
            if watched:
                await self._look(watched)

    async def _look(self, channels: Sequence[str]) -> None:
        counts = await self._ask(lambda server: server.pubsub_numsub(*channels))
        gone = [channel.decode() for channel, count in counts if not count]
        if gone:
            self._end.gone(gone)

    def _close(self) -> None:
        self._open = False
        left = []
        while not self._asked.empty():
            left.append(self._asked.get_nowait())
        self._fail(left, ConnectionResetError("the connection has ended"))

    def _fail(self, asked: Collection[_Asked], error: BaseException) -> None:
        for each in asked:
            if each.result is not None and not each.result.done():
                each.result.set_exception(unavailable(self._settings, error))


def _client(settings: PipeSettings) -> Redis:
    assert settings.url is not None, "whoever makes a link has an address"
    options: dict[str, Any] = {}
    if settings.url.startswith("rediss:"):
        options["ssl_ca_certs"] = settings.ca_file
        if settings.certificate_file is not None:
            options["ssl_certfile"] = settings.certificate_file
            options["ssl_keyfile"] = settings.key_file
    pool = BlockingConnectionPool.from_url(
        settings.url,
        max_connections=2,  # one that listens, and one that sends
        timeout=settings.silence_seconds,
        socket_connect_timeout=settings.silence_seconds,
        socket_timeout=settings.silence_seconds,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),  # a connection that breaks is not mended: its channel ends
        **options,
    )
    return Redis.from_pool(pool)
