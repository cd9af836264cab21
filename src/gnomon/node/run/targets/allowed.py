"""Calls only targets that the tenant's allow-list has, whoever stored the task, and when."""

from collections.abc import Awaitable, Coroutine
from typing import Any

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import Target
from gnomon.model.text import storable
from gnomon.node.run.targets import Caller, Place
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.store.tenant_cache import TenantCache


class AllowedCaller:
    """`Caller` that asks the tenant's allow-list before another one is called. No redirect is ever
    followed, so the target is all that is called."""

    def __init__(self, caller: Caller, directory: TenantCache) -> None:
        self._caller = caller
        self._allow_lists = directory.allow_lists  # mostly empty, and asked for every call

    @property
    def least_room(self) -> float:
        return self._caller.least_room

    def place(self, target: Target) -> Place | None:
        return self._caller.place(target)

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        """Prepares only allowed calls: even a look-up of a name tells it to others."""
        if self._allow_lists and self._refused(delivery) is not None:
            return None
        return self._caller.ready(delivery)

    def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Coroutine[Any, Any, Outcome | None]:
        """Hands on the call itself: a coroutine around it would cost every task."""
        # Asked again: the list may have changed while the call was waited for.
        if self._allow_lists and (refused := self._refused(delivery)) is not None:
            return _told(refused)
        return self._caller.call(delivery, payload, run)

    def _refused(self, delivery: Delivery) -> Outcome | None:
        allow = self._allow_lists.get(delivery.key.tenant_id)
        if allow is None or allow.allows(delivery.target):
            return None
        error = f"it is not called: it {allow.refusal(delivery.target, 'its tenant')}"
        return Outcome(
            OutcomeKind.FAILED, error=storable(error[:2000]), retryable=False, uncalled=True
        )


async def _told(outcome: Outcome) -> Outcome:
    return outcome
