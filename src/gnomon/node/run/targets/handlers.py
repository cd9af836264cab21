"""Handlers of the node's app: called in the node, or in quarantine after a lost execution."""

from collections.abc import Awaitable

from gnomon.model.outcome import Outcome
from gnomon.model.quarantine import is_suspect
from gnomon.model.target import Target
from gnomon.node.run.quarantine.pool import Quarantine
from gnomon.node.run.targets import Place
from gnomon.node.run.targets.python import PythonCaller
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.context import TaskContext


class HandlerCaller:
    """`Caller` for `python` targets."""

    def __init__(self, in_node: PythonCaller, quarantine: Quarantine) -> None:
        self._in_node = in_node
        self._quarantine = quarantine

    @property
    def least_room(self) -> float:
        return self._in_node.least_room

    def place(self, target: Target) -> Place | None:
        return self._in_node.place(target)

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        losses = delivery.losses
        return self._quarantine.ready(delivery) if losses and is_suspect(losses) else None

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        if delivery.losses and is_suspect(delivery.losses):
            return await self._quarantine.call(delivery, payload, run)
        return await self._in_node.call(delivery, payload, run)
