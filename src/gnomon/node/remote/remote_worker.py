"""The workers of a gateway, as its other parts see them."""

import asyncio
from collections.abc import Mapping

import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreError
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.tasks.task import TaskKey
from gnomon.node.dispatch.session_check import SessionCheck
from gnomon.node.remote.conversation import Conversation
from gnomon.node.remote.renewals import SessionRenewals
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.starter import Starter
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.http.session import RemoteExecution, WorkerSession

log = structlog.get_logger("gnomon.gateway")

_PACE_SECONDS = 0.5
_FULL_SECONDS = 0.02  # between looks whether workers have taken payloads
_PAYLOAD_GONE = Outcome(
    OutcomeKind.FAILED, error="its payload is gone", retryable=False, uncalled=True, internal=True
)


class RemoteWorker:
    """Sessions in place of slots: what they run ends by their own word."""

    def __init__(
        self,
        conversation: Conversation,
        check: SessionCheck,
        starter: Starter,
        renewals: SessionRenewals,
        payloads: Payloads,
        clock: Clock,
    ) -> None:
        self._pipe = conversation.pipe
        self._conversation = conversation
        self._check = check
        self._starter = starter
        self._renewals = renewals
        self._payloads = payloads
        self._clock = clock

    @property
    def running(self) -> Mapping[TaskKey, RemoteExecution]:
        return self._pipe.running

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._starter.run())
            group.create_task(self._renewals.run())
            group.create_task(self._keep_pace())
            group.create_task(self._load())

    def drain(self) -> None:
        """Answer all polls, and release what no session has received. What they run goes on."""
        self._conversation.end_all()
        for delivery in self._pipe.unsent():
            self._pipe.report(Report(delivery))

    def interrupt(self, key: TaskKey, reason: str) -> bool:
        """End a running task; False where it does not run here."""
        del reason  # of a cancellation
        return self._conversation.stop(key, "cancelled")

    def interrupt_all(self, reason: str) -> None:
        """The gateway is dead: its sessions go on at another one, or at its next incarnation."""
        log.warning("leaving all worker sessions to other gateways", why=reason)
        self._conversation.end_all()

    def give_up_hung(self, *, at_once: bool = False) -> None:
        """What ends too late is taken over by row."""

    async def _keep_pace(self) -> None:
        while True:
            await self._clock.sleep(_PACE_SECONDS)
            self._pipe.pace()
            self._check.look_again()
            for delivery in self._pipe.late(self._clock.seconds()):
                self._pipe.report(Report(delivery))

    async def _load(self) -> None:
        """Read the payloads that are kept apart, one after the other, as far as memory allows:
        those that no worker has yet count."""
        while True:
            await self._pipe.lacks.wait()
            self._pipe.lacks.clear()
            while self._pipe.lacking:
                while self._pipe.loaded_bytes >= self._payloads.memory:
                    await self._clock.sleep(_FULL_SECONDS)
                await self._load_one(*self._pipe.lacking.popleft())

    async def _load_one(self, session: WorkerSession, delivery: Delivery) -> None:
        try:
            payload = await self._payloads.fetch(delivery.key)
        except StoreError:  # it is noted, and the task released
            self._pipe.not_loaded(session, Report(delivery))
            return
        if payload is None:
            now = self._clock.seconds()
            self._pipe.not_loaded(session, Report(delivery, _PAYLOAD_GONE, now, now))
            return
        self._pipe.loaded(session, msgspec.structs.replace(delivery, payload=payload))
