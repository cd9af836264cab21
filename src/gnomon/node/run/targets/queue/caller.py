"""Publishes `queue` targets by the connections of the settings."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import Target
from gnomon.model.text import storable
from gnomon.node.run.targets import Place
from gnomon.node.run.targets.headers import request_id, task_headers
from gnomon.node.run.targets.queue import Broker, Credentials, Message, NotPublished
from gnomon.node.run.targets.signing import Signatory, Unsigned
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings.queues import QueueConnection
from gnomon.settings.targets import TargetSettings
from gnomon.version import VERSION

MakeBroker = Callable[[QueueConnection, Credentials], Broker]

# By the scheme of the connection: the module here, which is also the extra, and its class.
_BROKERS = {
    **dict.fromkeys(("redis", "rediss"), ("redis", "RedisBroker")),
    **dict.fromkeys(("amqp", "amqps"), ("rabbitmq", "RabbitBroker")),
    **dict.fromkeys(("kafka", "kafkas"), ("kafka", "KafkaBroker")),
}


class QueueCaller:
    """`Caller` for `queue` targets. It keeps a connection to each broker, and makes another one
    when the credentials in its files have changed."""

    def __init__(self, clock: Clock, signatory: Signatory | None, settings: TargetSettings) -> None:
        self._clock = clock
        self._signatory = signatory
        self._connections = settings.queues
        self._room = settings.connections_per_host
        self._open: dict[str, tuple[Credentials, Broker]] = {}
        self._leaving: dict[Broker, int] = {}  # those in use, and how many messages are under way

    async def close(self) -> None:
        for _, broker in self._open.values():
            await broker.close()
        self._open.clear()

    @property
    def least_room(self) -> float:
        return self._room

    def place(self, target: Target) -> Place | None:
        assert isinstance(target, QueueTarget)
        return Place(target.host, self._room)

    def ready(self, delivery: Delivery) -> Awaitable[None] | None:
        tenant_id = delivery.key.tenant_id
        if self._signatory is not None and not self._signatory.knows(tenant_id):
            return self._signatory.learn(tenant_id)
        return None

    async def call(self, delivery: Delivery, payload: bytes | None, _: TaskContext) -> Outcome:
        target = delivery.target
        assert isinstance(target, QueueTarget)
        try:
            target.check()  # it may be older than the rules
            settings = self._allowed(target, delivery.key.tenant_id)
            message = self._message(delivery, target, payload or b"null")
        except ValueError as error:
            return _not_called(f"it cannot be published: {error}", retryable=False)
        except Unsigned as error:
            return _not_called(f"it cannot be signed: {error}", retryable=True)
        try:
            given = await self._published(target, settings, message)
        except NotPublished as error:
            return Outcome(
                OutcomeKind.FAILED,
                error=storable(f"{target.host}: {error}"[:2000]),
                retryable=error.again or delivery.retry_policy.retry_client_errors,
                unreachable=error.unwell,
            )
        return Outcome(OutcomeKind.SUCCEEDED, response_body=storable(given[:200]))

    def _allowed(self, target: QueueTarget, tenant_id: str) -> QueueConnection:
        """Raises ValueError. What others have is not told."""
        found = self._connections.get(target.connection)
        if found is None or not found.is_for(tenant_id, target.topic):
            raise ValueError(
                f"no connection {target.connection!r} of targets.queues on this node lets the "
                f"tenant publish to {target.topic!r}"
            )
        return found

    def _message(self, delivery: Delivery, target: QueueTarget, body: bytes) -> Message:
        """Raises ValueError for a key that no header can hold, and Unsigned."""
        headers = {
            "content-type": "application/json",
            "user-agent": f"gnomon/{VERSION}",
            "x-request-id": request_id(delivery),
            **target.headers,
            **task_headers(delivery, self._clock.seconds()),
        }
        message_id, moment = headers["webhook-id"], headers["webhook-timestamp"]
        if self._signatory is not None:
            tenant_id = delivery.key.tenant_id
            signature = self._signatory.sign(tenant_id, target.url, message_id, moment, body)
            if signature is not None:
                headers["webhook-signature"] = signature
        return Message(message_id, body, headers, target.key)

    async def _published(
        self, target: QueueTarget, settings: QueueConnection, message: Message
    ) -> str:
        broker = await self._broker(target.connection, settings)
        self._leaving[broker] = self._leaving.get(broker, 0) + 1
        try:
            return await broker.publish(target.topic, message)
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


def _not_called(error: str, *, retryable: bool) -> Outcome:
    return Outcome(
        OutcomeKind.FAILED, error=storable(error[:2000]), retryable=retryable, uncalled=True
    )
