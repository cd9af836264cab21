"""Handlers of the node's app: called in the node, in a process, or in quarantine."""

from collections.abc import Awaitable, Coroutine
from typing import Any

from gnomon.model.outcomes.outcome import Outcome
from gnomon.model.outcomes.quarantine import is_suspect
from gnomon.model.targets.target import PythonTarget, Target
from gnomon.node.run.process_pool import ProcessPool
from gnomon.node.run.quarantine.pool import Quarantine
from gnomon.node.run.targets import Place
from gnomon.node.run.targets.python import PythonCaller
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.handler import Runs
from gnomon.sdk.executing.context import TaskContext


class HandlerCaller:
    """`Caller` for `python` targets. Suspects are called in quarantine, whatever their handler asks
    for: there is a process for them, too."""

    def __init__(
        self, app: Gnomon, in_node: PythonCaller, processes: ProcessPool, quarantine: Quarantine
    ) -> None:
        self._own_process = frozenset(
            name for name, handler in app.handlers.items() if handler.runs is Runs.PROCESS
        )
        self._in_node = in_node
        self._processes = processes
        self._quarantine = quarantine

    @property
    def least_room(self) -> float:
        room = self._in_node.least_room
        return min(room, self._processes.place.room) if self._own_process else room

    def place(self, target: Target) -> Place | None:
        if self._in_process(target):
            return self._processes.place
        return self._in_node.place(target)

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        losses = delivery.losses
        if losses and is_suspect(losses):
            return self._quarantine.ready(delivery)
        if self._own_process and self._in_process(delivery.target):
            return self._processes.ready(delivery)
        return None

    def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Coroutine[Any, Any, Outcome | None]:
        if delivery.losses and is_suspect(delivery.losses):
            return self._quarantine.call(delivery, payload, run)
        if self._own_process and self._in_process(delivery.target):
            return self._processes.call(delivery, payload, run)
        return self._in_node.call(delivery, payload, run)

    def _in_process(self, target: Target) -> bool:
        return isinstance(target, PythonTarget) and target.function in self._own_process
