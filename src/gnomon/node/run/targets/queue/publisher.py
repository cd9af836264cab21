"""Connections to the brokers of the settings, shared by all that publish."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

from gnomon.model.targets.queue_target import QueueTarget
from gnomon.node.run.targets.queue import Broker, Credentials, NotPublished
from gnomon.settings.queues import QueueConnection

MakeBroker = Callable[[QueueConnection, Credentials], Broker]

# By the scheme of the connection: the module here, which is also the extra, and its class.
_BROKERS = {
    **dict.fromkeys(("redis", "rediss"), ("redis", "RedisBroker")),
    **dict.fromkeys(("amqp", "amqps"), ("rabbitmq", "RabbitBroker")),
    **dict.fromkeys(("kafka", "kafkas"), ("kafka", "KafkaBroker")),
}


class QueuePublisher:
    """Keeps a connection to each broker, and makes another one when the credentials in its files
    have changed."""

    def __init__(self, connections: Mapping[str, QueueConnection]) -> None:
        self._connections = connections
        self._open: dict[str, tuple[Credentials, Broker]] = {}
        self._leaving: dict[Broker, int] = {}  # those in use, and by how many

    async def close(self) -> None:
        for _, broker in self._open.values():
            await broker.close()
        self._open.clear()

    @asynccontextmanager
    async def broker_of(self, target: QueueTarget, tenant_id: str) -> AsyncIterator[Broker]:
        """The broker that a tenant's message goes to. Raises ValueError where it may not be
        published, and NotPublished. What others may is not told."""
        settings = self._connections.get(target.connection)
        if settings is None or not settings.is_for(tenant_id, target.topic):
            raise ValueError(
                f"no connection {target.connection!r} of targets.queues on this node lets the "
                f"tenant publish to {target.topic!r}"
            )
        broker = await self._broker(target.connection, settings)
        self._leaving[broker] = self._leaving.get(broker, 0) + 1
        try:
            yield broker
        finally:
            self._leaving[broker] -= 1
            if not self._leaving[broker]:
                del self._leaving[broker]
                known = self._open.get(target.connection)
                if known is None or known[1] is not broker:  # another one has taken its place
                    await broker.close()

    async def _broker(self, name: str, settings: QueueConnection) -> Broker:
        in_thread = asyncio.get_running_loop().run_in_executor
        credentials = await in_thread(None, _read, settings)
        known = self._open.get(name)
        if known is not None and known[0] == credentials:
            return known[1]
        make = await in_thread(None, _maker, settings.scheme)
        known = self._open.get(name)
        if known is not None and known[0] == credentials:  # made while this one waited
            return known[1]
        made = make(settings, credentials)
        self._open[name] = credentials, made
        if known is not None and known[1] not in self._leaving:
            await known[1].close()
        return made


def _maker(scheme: str) -> MakeBroker:
    """Raises NotPublished where the client of the broker is not installed."""
    module, name = _BROKERS[scheme]
    try:
        found: MakeBroker = getattr(import_module(f"{__package__}.{module}"), name)
    except ModuleNotFoundError as error:
        advice = f"pip install 'gnomon[server,{module}]'"
        why = f"{error.name} is not installed on this node: {advice}"
        raise NotPublished(why, unwell=False) from error
    return found


def _read(settings: QueueConnection) -> Credentials:
    """Raises NotPublished."""
    try:
        password = settings.password_file
        files = (settings.ca_file, settings.certificate_file, settings.key_file)
        return Credentials(
            None if password is None else Path(password).read_text(encoding="utf-8").strip(),
            tuple(None if each is None else Path(each).read_bytes() for each in files),
        )
    except (OSError, UnicodeDecodeError) as error:
        raise NotPublished(f"a file of the connection cannot be read: {error}") from error
