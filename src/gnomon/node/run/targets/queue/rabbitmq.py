"""RabbitMQ: a topic is a routing key, of the default exchange the name of a queue. A message is
persistent, confirmed, and mandatory: one that no queue takes is a failure. It may be taken later:
a broker that has just been started returns messages whose durable queue is not back yet."""

import asyncio
import contextlib
from typing import Any

import aio_pika
from aio_pika import exceptions
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from yarl import URL

from gnomon.node.run.targets.queue import Credentials, Message, NotPublished
from gnomon.pipe.broker_security import tls_context
from gnomon.settings.queues import QueueConnection

_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_CONFIRM_SECONDS = 10.0  # a connection that broke may never say so
_REFUSED = "ACCESS_REFUSED - "
# What is still written to a channel that the broker has ended, ends the connection too.
_ENDED = (
    exceptions.ChannelClosed,
    exceptions.ChannelInvalidStateError,
    exceptions.ConnectionClosed,
)


class RabbitBroker:
    """`Broker` for RabbitMQ 3.10 and later. One connection, and one channel on it."""

    def __init__(self, settings: QueueConnection, credentials: Credentials) -> None:
        self._settings = settings
        self._credentials = credentials
        self._url = URL(settings.url)
        if credentials.password is not None:
            self._url = self._url.with_password(credentials.password)
        self._opening = asyncio.Lock()
        self._one_alone = asyncio.Lock()
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchange: AbstractExchange | None = None

    async def connect(self) -> None:
        await self._ready()

    async def publish(self, topic: str, message: Message) -> str:
        exchange = await self._ready()
        sent = aio_pika.Message(
            message.body,
            headers=dict(message.headers),
            message_id=message.id,
            content_type=message.headers.get("content-type", "application/json"),
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            correlation_id=message.key,
        )
        try:
            await self._send(exchange, topic, sent)
        except exceptions.PublishError as error:
            raise NotPublished(self._unroutable(topic), unwell=False) from error
        except exceptions.DeliveryError as error:
            raise NotPublished("the broker refused the message: a queue is full") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            await self._forget(exchange)
            raise NotPublished("the connection was closed") from error
        except (exceptions.AMQPError, RuntimeError, OSError) as error:
            if _REFUSED in str(error):
                raise _forbidden(error) from error
            await self._forget(exchange)
            raise NotPublished(_described(error)) from error
        return message.id

    async def _send(self, exchange: AbstractExchange, topic: str, sent: aio_pika.Message) -> None:
        try:
            await _confirmed(exchange, topic, sent)
        except _ENDED:
            # The broker ends the channel over one message, and all that are on it fail. Whose
            # fault it was shows when each is sent alone.
            async with self._one_alone:
                alone = RabbitBroker(self._settings, self._credentials)
                try:
                    await _confirmed(await alone._ready(), topic, sent)
                finally:
                    await alone._forget(alone._exchange)

    def _unroutable(self, topic: str) -> str:
        named = self._settings.exchange
        exchange = f"the exchange {named!r}" if named else "the default exchange"
        advice = "bind one" if named else "declare a queue of that name"
        return (
            f"no queue is bound to {exchange} by the routing key {topic!r}: {advice}, or correct"
            " the topic"
        )

    async def _forget(self, exchange: AbstractExchange | None) -> None:
        """Make another connection next time: one that broke does not always know it. Others may
        have done so already."""
        if exchange is not self._exchange or self._connection is None:
            return
        broken, self._exchange, self._connection = self._connection, None, None
        with contextlib.suppress(exceptions.AMQPError, RuntimeError, OSError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await broken.close()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _ready(self) -> AbstractExchange:
        """Raises NotPublished."""
        async with self._opening:
            known = self._exchange
            if known is not None and self._channel is not None and not self._channel.is_closed:
                return known
            await self._forget(known)  # a channel that was ended may take its connection along
            try:
                self._exchange = await self._opened()
            except (
                exceptions.AuthenticationError,
                exceptions.ProbableAuthenticationError,
            ) as error:
                why = "the broker refuses the credentials of the connection"
                raise NotPublished(why) from error
            except exceptions.InvalidFrameError as error:  # it was closed in place of opened
                user, host = self._url.user, self._url.path.removeprefix("/") or "/"
                why = f"there is no virtual host {host!r}, or {user!r} has no permission for it"
                raise NotPublished(why) from error
            except exceptions.ChannelNotFoundEntity as error:
                why = f"there is no exchange {self._settings.exchange!r}"
                raise NotPublished(why) from error
            except (exceptions.AMQPError, RuntimeError, OSError) as error:
                await self._forget(None)
                raise NotPublished(_described(error)) from error
            return self._exchange

    async def _opened(self) -> AbstractExchange:
        options: dict[str, Any] = {}
        if self._settings.scheme == "amqps":
            options["ssl_context"] = tls_context(self._settings)
        self._connection = await aio_pika.connect(self._url, timeout=_CONNECT_SECONDS, **options)
        channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        self._channel = channel
        if not self._settings.exchange:
            return channel.default_exchange
        return await channel.get_exchange(self._settings.exchange, ensure=True)


async def _confirmed(exchange: AbstractExchange, topic: str, sent: aio_pika.Message) -> None:
    await exchange.publish(sent, routing_key=topic, mandatory=True, timeout=_CONFIRM_SECONDS)


def _forbidden(error: BaseException) -> NotPublished:
    """The broker says which exchange or topic. Who may not write to the exchange may publish
    nothing by this connection, so its breaker counts that."""
    _, _, what = str(error).partition(_REFUSED)
    why = f"the user of the connection lacks the permission to write: {what[:400]}"
    return NotPublished(why, unwell="access to topic" not in what)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
