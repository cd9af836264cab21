"""One try at a task: fetch what is missing, call the target within its time, say what happened."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import assert_never

import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.model.target import HttpTarget, PythonTarget, Target
from gnomon.model.task import LEAST_TIMEOUT, TaskKey
from gnomon.node.run.byte_budget import ByteBudget
from gnomon.node.run.targets import Callers
from gnomon.node.run.task_context import TaskContext
from gnomon.node.run.threads import LeftRunning, TooManyHung
from gnomon.node.run.victims import victims
from gnomon.node.start_checks import StartChecks
from gnomon.observe.events import Handler, HandlerHung, HandlerReturned, Observer
from gnomon.pipe.envelope import Delivery, Report

log = structlog.get_logger("gnomon.node.run")

FetchPayload = Callable[[TaskKey], Awaitable[bytes | None]]


GivenUp = tuple["asyncio.Task[None]", Report]

_FROM_WITHIN = "its slot was cancelled from within"
_IGNORED = "; it ignored its cancellation"
_IN_THREAD = "; it goes on in its thread, which cannot be stopped"
_PREEMPTED = "preempted by a CRITICAL task"
_PAYLOAD_GONE = Outcome(
    OutcomeKind.FAILED, error="its payload is gone", retryable=False, uncalled=True
)


class RunningExecution:
    """A try under way: when it must end, and what can end it before. The deadline is that of the
    call once it has begun, and before that the moment when it must be given back."""

    __slots__ = (
        "begun", "deadline", "delivery", "given_up", "preempted", "reason", "run", "slot",
        "started_at", "timed_out", "told_at",
    )  # fmt: skip

    def __init__(
        self, delivery: Delivery, started_at: float, slot: "asyncio.Task[None]", deadline: float
    ) -> None:
        self.delivery = delivery
        self.started_at = started_at
        self.slot = slot
        self.deadline = deadline
        self.run = TaskContext(delivery)
        self.begun = False  # the call; before that, what it needs is gathered
        self.reason: str | None = None
        self.told_at = deadline  # to stop
        self.timed_out = False
        self.preempted = False
        self.given_up = False

    def interrupt(self, reason: str, now: float) -> None:
        """End it now. The slot that runs it goes on with the next task."""
        self.reason = reason
        self.told_at = now
        self.slot.cancel()

    def take_back(self) -> None:
        """The cancellation by an interrupt: it was not meant for the slot. Any other stays."""
        if self.reason is not None:
            self.slot.uncancel()

    def cut_short(self, note: str = "") -> Outcome | None:
        """What to say of it when it did not end by itself. None: the call was not made."""
        if self.timed_out:
            error = f"did not end within {self.delivery.timeout_seconds:g} s"
            return self._outcome(OutcomeKind.TIMED_OUT, error + note)
        if self.reason is not None:
            kind = OutcomeKind.PREEMPTED if self.preempted else OutcomeKind.CANCELLED
            return self._outcome(kind, self.reason + note)
        if self.slot.cancelling():
            return self._outcome(OutcomeKind.FAILED, _FROM_WITHIN + note)
        # Nobody told the slot to stop: something that the target waited for was cancelled.
        return self._outcome(OutcomeKind.FAILED, "CancelledError" + note)

    def came_to(self, outcome: Outcome | None) -> Outcome | None:
        """What the try came to. One that failed while it gave way may have failed of that, so it
        is not held against the task."""
        if not self.preempted or outcome is None or outcome.kind is not OutcomeKind.FAILED:
            return outcome
        return self.cut_short(f"; {outcome.error}") if outcome.retryable else outcome

    def _outcome(self, kind: OutcomeKind, error: str) -> Outcome | None:
        if not self.begun:
            return None
        return Outcome(kind, error=error, completed_by_handler=self.run.completed)

    def handler(self, *, in_thread: bool) -> Handler:
        return Handler(
            task_id=self.delivery.key.id,
            task_type=self.delivery.task_type,
            function=_function_in(self.delivery.target),
            in_thread=in_thread,
        )


def _function_in(target: Target) -> str | None:
    match target:
        case HttpTarget():
            return None
        case PythonTarget():
            return target.function
        case _:
            assert_never(target)


class Runner:
    """Runs deliveries, and knows which ones it is running."""

    def __init__(
        self,
        callers: Callers,
        fetch_payload: FetchPayload,
        clock: Clock,
        payload_memory: int,
        patience: float,
        emit: Observer,
        checks: StartChecks | None = None,
    ) -> None:
        self._callers = callers
        self._fetch_payload = fetch_payload
        self._clock = clock
        self._budget = ByteBudget(payload_memory)
        self._emit = emit
        self._checks = checks or StartChecks()
        self.patience = patience  # seconds for a try to end in once it was told to
        self.running: dict[TaskKey, RunningExecution] = {}
        self.preemptible: set[RunningExecution] = set()  # of those, by their own word
        self._stopping: set[RunningExecution] = set()

    async def run(self, delivery: Delivery, slot: "asyncio.Task[None]") -> Report | None:
        """Make one try, as `slot`. Gives a report whatever happens, or None where the try was
        given up: then another slot has the place of this one. If the slot itself was cancelled, it
        still is. Raises only what must end the node."""
        now = self._clock.seconds()
        # Until the call begins, whatever it waits for is not the target's time.
        deadline = self._clock.monotonic() + max(0.0, delivery.start_by - now)
        attempt = RunningExecution(delivery, now, slot, deadline)
        outcome = await self._within_its_time(attempt)
        if attempt.given_up:
            self._came_back(attempt, in_thread=False)
            return None
        return self._report(attempt, attempt.came_to(outcome))

    def awaited(self, delivery: Delivery) -> Awaitable[None] | None:
        """What its call must wait for, until it must be given back at the latest."""
        waiting = self._callers.of(delivery.target).ready(delivery)
        return None if waiting is None else self._until_late(waiting, delivery.start_by)

    async def _until_late(self, waiting: Awaitable[object], start_by: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, start_by - self._clock.seconds())):
                await waiting

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

    def giving_way(self) -> int:
        """How many tries were made to, and have not ended."""
        return sum(attempt.preempted for attempt in self._stopping)

    def preempt(self, most: int) -> list[Delivery]:
        """End up to so many tries for the sake of something more urgent; gives which."""
        chosen = victims(self.preemptible, most)
        for attempt in chosen:
            attempt.preempted = True
            self._tell(attempt, _PREEMPTED)
        return [attempt.delivery for attempt in chosen]

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

    def _tell(self, attempt: RunningExecution, reason: str) -> None:
        if attempt.reason is None:
            self._stopping.add(attempt)
            attempt.interrupt(reason, self._clock.monotonic())

    def _give_up(self, attempt: RunningExecution, now: float) -> GivenUp:
        attempt.given_up = True
        self._forget(attempt)
        handler = attempt.handler(in_thread=False)
        self._emit(HandlerHung(handler, now - attempt.told_at))
        return attempt.slot, self._report(attempt, attempt.cut_short(_IGNORED))

    def _report(self, attempt: RunningExecution, outcome: Outcome | None) -> Report:
        if outcome is None:
            return Report(attempt.delivery)
        report = Report(attempt.delivery, outcome, attempt.started_at, self._clock.seconds())
        self._checks.called(report)
        return report

    def _leave_in_thread(self, attempt: RunningExecution, returned: "asyncio.Future[None]") -> None:
        handler = attempt.handler(in_thread=True)
        now = self._clock.monotonic()
        if attempt.reason is None:
            attempt.told_at = now  # by something else than an interrupt
        self._emit(HandlerHung(handler, now - attempt.told_at))
        returned.add_done_callback(lambda _: self._came_back(attempt, in_thread=True))

    def _came_back(self, attempt: RunningExecution, *, in_thread: bool) -> None:
        seconds = self._clock.monotonic() - attempt.told_at
        handler = attempt.handler(in_thread=in_thread)
        self._emit(HandlerReturned(handler, seconds))

    def _forget(self, attempt: RunningExecution) -> None:
        self._stopping.discard(attempt)
        self.preemptible.discard(attempt)
        # One that ignored its timeout may have been taken over, by this very node.
        if self.running.get(attempt.delivery.key) is attempt:
            del self.running[attempt.delivery.key]

    async def _within_its_time(self, attempt: RunningExecution) -> Outcome | None:
        self.running[attempt.delivery.key] = attempt
        if attempt.delivery.preemptible:
            self.preemptible.add(attempt)
        try:
            return await self._call(attempt)
        except asyncio.CancelledError as told:
            if isinstance(told, LeftRunning):
                self._leave_in_thread(attempt, told.returned)
                return attempt.cut_short(_IN_THREAD)
            return attempt.cut_short()
        finally:
            attempt.take_back()  # also where it ended well although it was told to stop
            self._forget(attempt)

    async def _call(self, attempt: RunningExecution) -> Outcome | None:
        """None where the call was not made."""
        delivery = attempt.delivery
        try:
            if delivery.payload_size is None:
                return await self._begin(attempt, delivery.payload)
            async with self._budget.hold(delivery.payload_size):
                return await self._begin_with_fetched(attempt)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except TooManyHung:
            raise  # a node that can call no more functions must not go on taking them
        except BaseException as error:
            log.exception("a target failed inside Gnomon", task_id=str(delivery.key.id))
            detail = f"internal error: {type(error).__name__}"
            return Outcome(OutcomeKind.FAILED, error=detail, uncalled=True)

    async def _begin_with_fetched(self, attempt: RunningExecution) -> Outcome | None:
        key = attempt.delivery.key
        try:
            payload = await self._fetch_payload(key)
        except StoreUnavailable as error:
            log.warning("a payload cannot be read now", task_id=str(key.id), why=str(error))
            return None
        return _PAYLOAD_GONE if payload is None else await self._begin(attempt, payload)

    async def _begin(self, attempt: RunningExecution, payload: bytes | None) -> Outcome | None:
        if attempt.reason is not None:
            return None  # told to stop before, it may have been given back
        if not self._checks.may_call(attempt.delivery):
            return None
        self._begins(attempt)
        caller = self._callers.of(attempt.delivery.target)
        return await caller.call(attempt.delivery, payload, attempt.run)

    def _begins(self, attempt: RunningExecution) -> None:
        """The call is made now: its time counts from here."""
        attempt.begun = True
        attempt.started_at = self._clock.seconds()
        seconds = max(LEAST_TIMEOUT, attempt.delivery.timeout_seconds)  # older rows may hold less
        attempt.deadline = self._clock.monotonic() + seconds
