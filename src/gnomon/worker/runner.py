"""One try at a task: fetch what is missing, call the target within its time, say what happened."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.model.target import PythonTarget, Target
from gnomon.model.task import TaskKey
from gnomon.observe.events import Handler, HandlerHung, HandlerReturned, Observer
from gnomon.pipe.envelope import Delivery, Report
from gnomon.worker.budget import ByteBudget
from gnomon.worker.targets import Caller
from gnomon.worker.threads import LeftRunning

log = structlog.get_logger("gnomon.worker")

FetchPayload = Callable[[TaskKey], Awaitable[bytes | None]]


GivenUp = tuple["asyncio.Task[None]", Report]

_IGNORED = "; it ignored its cancellation"
_IN_THREAD = "; it goes on in its thread, which cannot be stopped"


class Try:
    """A try under way: when it must end, and what can end it before."""

    __slots__ = (
        "deadline", "delivery", "given_up", "reason", "slot", "started_at", "timed_out", "told_at",
    )  # fmt: skip

    def __init__(
        self, delivery: Delivery, started_at: datetime, slot: "asyncio.Task[None]", deadline: float
    ) -> None:
        self.delivery = delivery
        self.started_at = started_at
        self.slot = slot
        self.deadline = deadline
        self.reason: str | None = None
        self.told_at = deadline  # to stop
        self.timed_out = False
        self.given_up = False

    def interrupt(self, reason: str, now: float) -> None:
        """End it now. The slot that runs it goes on with the next task."""
        self.reason = reason
        self.told_at = now
        self.slot.cancel()

    def ended(self) -> bool:
        """Take back the cancellation of an interrupt. False where the slot itself must end."""
        return self.reason is None or self.slot.uncancel() == 0

    def cut_short(self, note: str = "") -> Outcome:
        """What to say of it when it did not end by itself."""
        if self.timed_out:
            error = f"did not end within {self.delivery.timeout_seconds:g} s{note}"
            return Outcome(OutcomeKind.TIMED_OUT, error=error)
        return Outcome(OutcomeKind.CANCELLED, error=f"{self.reason}{note}")

    def handler(self, *, in_thread: bool) -> Handler:
        target = self.delivery.target
        return Handler(
            task_id=self.delivery.key.id,
            task_type=self.delivery.task_type,
            function=target.function if isinstance(target, PythonTarget) else None,
            in_thread=in_thread,
        )


class Runner:
    """Runs deliveries, and knows which ones it is running."""

    def __init__(
        self,
        callers: Mapping[type[Target], Caller],
        fetch_payload: FetchPayload,
        clock: Clock,
        payload_memory: int,
        patience: float,
        emit: Observer,
    ) -> None:
        self._callers = callers
        self._fetch_payload = fetch_payload
        self._clock = clock
        self._budget = ByteBudget(payload_memory)
        self._emit = emit
        self.patience = patience  # seconds for a try to end in once it was told to
        self.running: dict[TaskKey, Try] = {}
        self._stopping: set[Try] = set()

    async def run(
        self, delivery: Delivery, started_at: datetime, slot: "asyncio.Task[None]"
    ) -> Report | None:
        """Make one try, as `slot`. Gives a report whatever happens, or None where the try was
        given up: then another slot has the place of this one. Raises only when the slot itself is
        cancelled."""
        deadline = self._clock.monotonic() + delivery.timeout_seconds
        attempt = Try(delivery, started_at, slot, deadline)
        outcome = await self._within_its_time(attempt)
        if attempt.given_up:
            self._came_back(attempt, in_thread=False)
            return None
        return Report(delivery, outcome, started_at, self._clock.now())

    def interrupt(self, key: TaskKey, reason: str) -> bool:
        """End a try; False where there is none."""
        attempt = self.running.get(key)
        if attempt is None:
            return False
        self._tell(attempt, reason)
        return True

    def interrupt_all(self, reason: str) -> None:
        for attempt in list(self.running.values()):
            self._tell(attempt, reason)

    def end_overdue(self) -> None:
        """End the tries whose time is up. One look at all of them, every now and then, costs far
        less than a timer for each."""
        now = self._clock.monotonic()
        for attempt in list(self.running.values()):
            if attempt.deadline <= now and attempt.reason is None:
                attempt.timed_out = True
                self._tell(attempt, "timeout")

    def give_up(self, *, at_once: bool = False) -> list[GivenUp]:
        """The tries that go on although they were told to stop, with their slots, and the only
        reports that there will be of them."""
        now = self._clock.monotonic()
        latest = now if at_once else now - self.patience
        return [self._give_up(a, now) for a in list(self._stopping) if a.told_at <= latest]

    def _tell(self, attempt: Try, reason: str) -> None:
        if attempt.reason is None:
            self._stopping.add(attempt)
            attempt.interrupt(reason, self._clock.monotonic())

    def _give_up(self, attempt: Try, now: float) -> GivenUp:
        attempt.given_up = True
        self._forget(attempt)
        handler = attempt.handler(in_thread=False)
        self._emit(HandlerHung(handler, now - attempt.told_at))
        outcome = attempt.cut_short(_IGNORED)
        report = Report(attempt.delivery, outcome, attempt.started_at, self._clock.now())
        return attempt.slot, report

    def _leave_in_thread(self, attempt: Try, returned: "asyncio.Future[None]") -> None:
        handler = attempt.handler(in_thread=True)
        seconds = self._clock.monotonic() - attempt.told_at
        self._emit(HandlerHung(handler, seconds))
        returned.add_done_callback(lambda _: self._came_back(attempt, in_thread=True))

    def _came_back(self, attempt: Try, *, in_thread: bool) -> None:
        seconds = self._clock.monotonic() - attempt.told_at
        handler = attempt.handler(in_thread=in_thread)
        self._emit(HandlerReturned(handler, seconds))

    def _forget(self, attempt: Try) -> None:
        self._stopping.discard(attempt)
        # One that ignored its timeout may have been taken over, by this very node.
        if self.running.get(attempt.delivery.key) is attempt:
            del self.running[attempt.delivery.key]

    async def _within_its_time(self, attempt: Try) -> Outcome:
        self.running[attempt.delivery.key] = attempt
        try:
            outcome = await self._call(attempt.delivery)
        except asyncio.CancelledError as told:
            if attempt.reason is None and not attempt.slot.cancelling():
                # Nobody told the slot to stop: something that the target waited for was cancelled.
                return Outcome(OutcomeKind.FAILED, error="CancelledError")
            if attempt.reason is None or not attempt.ended():
                raise
            if isinstance(told, LeftRunning):
                self._leave_in_thread(attempt, told.returned)
                return attempt.cut_short(_IN_THREAD)
            return attempt.cut_short()
        else:
            attempt.ended()  # it ended well although it was told to stop
            return outcome
        finally:
            self._forget(attempt)

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
