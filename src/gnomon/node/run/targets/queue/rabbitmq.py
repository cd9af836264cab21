"""RabbitMQ: a topic is a routing key, of the default exchange the name of a queue. A message is
persistent, confirmed, and mandatory: one that no queue takes is a failure."""

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


class RabbitBroker:
    """`Broker` for RabbitMQ 3.10 and later. One connection, and one channel on it."""

    def __init__(self, settings: QueueConnection, credentials: Credentials) -> None:
        self._settings = settings
        self._url = URL(settings.url)
        if credentials.password is not None:
            self._url = self._url.with_password(credentials.password)
        self._opening = asyncio.Lock()
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchange: AbstractExchange | None = None

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
            await exchange.publish(
                sent, routing_key=topic, mandatory=True, timeout=_CONFIRM_SECONDS
            )
        except exceptions.PublishError as error:
            why = f"no queue takes the message: nothing is bound to {topic!r}"
            raise NotPublished(why, again=False, unwell=False) from error
        except exceptions.DeliveryError as error:
            raise NotPublished("the broker refused the message: a queue is full") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            await self._forget(exchange)
            raise NotPublished("the connection was closed") from error
        except (exceptions.AMQPError, RuntimeError, OSError) as error:
            await self._forget(exchange)
            raise NotPublished(_described(error)) from error
        return message.id

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
            try:
                self._exchange = await self._opened()
            except (
                exceptions.AuthenticationError,
                exceptions.ProbableAuthenticationError,
            ) as error:
                why = "the broker refuses the credentials of the connection"
                raise NotPublished(why) from error
            except exceptions.ChannelNotFoundEntity as error:
                why = f"there is no exchange {self._settings.exchange!r}"
                raise NotPublished(why, again=False, unwell=False) from error
            except (exceptions.AMQPError, RuntimeError, OSError) as error:
                await self._forget(known)
                raise NotPublished(_described(error)) from error
            return self._exchange

    async def _opened(self) -> AbstractExchange:
        if self._connection is None or self._connection.is_closed:
            options: dict[str, Any] = {}
            if self._settings.scheme == "amqps":
                options["ssl_context"] = tls_context(self._settings)
            self._connection = await aio_pika.connect(
                self._url, timeout=_CONNECT_SECONDS, **options
            )
        channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        self._channel = channel
        if not self._settings.exchange:
            return channel.default_exchange
        return await channel.get_exchange(self._settings.exchange, ensure=True)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
