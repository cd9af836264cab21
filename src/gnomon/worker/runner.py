"""One try at a task: fetch what is missing, call the target within its time, say what happened."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.model.target import Target
from gnomon.model.task import TaskKey
from gnomon.pipe.envelope import Delivery, Report
from gnomon.worker.budget import ByteBudget
from gnomon.worker.targets import Caller

log = structlog.get_logger("gnomon.worker")

FetchPayload = Callable[[TaskKey], Awaitable[bytes | None]]


class Try:
    """A try under way: when it must end, and what can end it before."""

    __slots__ = ("_slot", "deadline", "reason", "timed_out")

    def __init__(self, slot: "asyncio.Task[None]", deadline: float) -> None:
        self._slot = slot
        self.deadline = deadline
        self.reason: str | None = None
        self.timed_out = False

    def interrupt(self, reason: str) -> None:
        """End it now. The slot that runs it goes on with the next task."""
        if self.reason is None:
            self.reason = reason
            self._slot.cancel()

    def ended(self) -> bool:
        """Take back the cancellation of an interrupt. False where the slot itself must end."""
        return self.reason is None or self._slot.uncancel() == 0


class Runner:
    """Runs deliveries, and knows which ones it is running."""

    def __init__(
        self,
        callers: Mapping[type[Target], Caller],
        fetch_payload: FetchPayload,
        clock: Clock,
        payload_memory: int,
    ) -> None:
        self._callers = callers
        self._fetch_payload = fetch_payload
        self._clock = clock
        self._budget = ByteBudget(payload_memory)
        self.running: dict[TaskKey, Try] = {}

    async def run(
        self, delivery: Delivery, started_at: datetime, slot: "asyncio.Task[None]"
    ) -> Report:
        """Make one try, as `slot`. Gives a report whatever happens, and raises only when the slot
        itself is cancelled."""
        outcome = await self._within_its_time(delivery, slot)
        return Report(delivery, outcome, started_at, self._clock.now())

    def end_overdue(self) -> None:
        """End the tries whose time is up. One look at all of them, every now and then, costs far
        less than a timer for each."""
        now = self._clock.monotonic()
        for attempt in list(self.running.values()):
            if attempt.deadline <= now and attempt.reason is None:
                attempt.timed_out = True
                attempt.interrupt("timeout")

    async def _within_its_time(self, delivery: Delivery, slot: "asyncio.Task[None]") -> Outcome:
        attempt = Try(slot, self._clock.monotonic() + delivery.timeout_seconds)
        self.running[delivery.key] = attempt
        try:
            outcome = await self._call(delivery)
        except asyncio.CancelledError:
            if attempt.reason is None and not slot.cancelling():
                # Nobody told the slot to stop: something that the target waited for was cancelled.
                return Outcome(OutcomeKind.FAILED, error="CancelledError")
            if attempt.reason is None or not attempt.ended():
                raise
            if attempt.timed_out:
                error = f"did not end within {delivery.timeout_seconds:g} s"
                return Outcome(OutcomeKind.TIMED_OUT, error=error)
            return Outcome(OutcomeKind.CANCELLED, error=attempt.reason)
        else:
            attempt.ended()  # it ended well although it was told to stop
            return outcome
        finally:
            # One that ignored its timeout may have been taken over, by this very node.
            if self.running.get(delivery.key) is attempt:
                del self.running[delivery.key]

    async def _call(self, delivery: Delivery) -> Outcome:
        try:
            caller = self._callers[type(delivery.target)]
            if delivery.payload_size is None:
                return await caller.call(delivery, delivery.payload)
            async with self._budget.hold(delivery.payload_size):
                return await caller.call(delivery, await self._fetch_payload(delivery.key))
        except StoreUnavailable as error:
            return Outcome(OutcomeKind.FAILED, error=f"the payload could not be read: {error}")
        except Exception as error:
            log.exception("a target failed inside Gnomon", task_id=str(delivery.key.id))
            return Outcome(OutcomeKind.FAILED, error=f"internal error: {type(error).__name__}")
