"""Publishes `queue` targets by the connections of the settings."""

from collections.abc import Awaitable

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import Target
from gnomon.model.text import storable
from gnomon.node.run.targets import MayBegin, Place, always
from gnomon.node.run.targets.headers import request_id, task_headers
from gnomon.node.run.targets.queue import Message, NotPublished
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.node.run.targets.signing import Signatory, Unsigned
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.version import VERSION


class QueueCaller:
    """`Caller` for `queue` targets."""

    def __init__(
        self,
        clock: Clock,
        signatory: Signatory | None,
        publisher: QueuePublisher,
        room: int,
        may_begin: MayBegin = always,
    ) -> None:
        self._clock = clock
        self._signatory = signatory
        self._publisher = publisher
        self._room = room
        self._may_begin = may_begin

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

    async def call(
        self, delivery: Delivery, payload: bytes | None, _: TaskContext
    ) -> Outcome | None:
        target = delivery.target
        assert isinstance(target, QueueTarget)
        try:
            target.check()  # it may be older than the rules
            async with self._publisher.broker_of(target, delivery.key.tenant_id) as broker:
                await broker.connect()
                if not self._may_begin():
                    return None
                message = self._message(delivery, target, payload or b"null")
                given = await broker.publish(target.topic, message)
        except ValueError as error:
            return _not_called(f"it cannot be published: {error}", retryable=False)
        except Unsigned as error:
            return _not_called(f"it cannot be signed: {error}", retryable=True)
        except NotPublished as error:
            return Outcome(
                OutcomeKind.FAILED,
                error=storable(f"{target.host}: {error}"[:2000]),
                retryable=error.again or delivery.retry_policy.retry_client_errors,
                unreachable=error.unwell,
            )
        return Outcome(OutcomeKind.SUCCEEDED, response_body=storable(given[:200]))

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


def _not_called(error: str, *, retryable: bool) -> Outcome:
    return Outcome(
        OutcomeKind.FAILED, error=storable(error[:2000]), retryable=retryable, uncalled=True
    )
