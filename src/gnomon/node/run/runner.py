"""One execution of a task: fetch what is missing, call the target within its time, report."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any

import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.tasks.task import LEAST_TIMEOUT, TaskKey
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.preemption_order import preemption_order
from gnomon.node.run.running_execution import RunningExecution, Stop
from gnomon.node.run.stacks import Interrupted
from gnomon.node.run.targets import Callers
from gnomon.node.run.threads import LeftRunning, TooManyHung
from gnomon.node.start_checks import StartChecks
from gnomon.observe.events import HandlerHung, HandlerReturned, Observer
from gnomon.observe.log_fields import about
from gnomon.pipe.envelope import Delivery, Report
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.executing.failure import traceback_of

log = structlog.get_logger("gnomon.node.run")

MayStart = Callable[[Delivery, float], bool]  # at which time
GivenUp = tuple["asyncio.Task[None]", Report]

_IGNORED = "; it ignored its cancellation"
_IN_THREAD = "; it goes on in its thread, which cannot be stopped"
_PREEMPTED = "preempted by a CRITICAL task"
_PAYLOAD_GONE = Outcome(
    OutcomeKind.FAILED, error="its payload is gone", retryable=False, uncalled=True, internal=True
)


class Runner:
    """Runs deliveries, and knows which ones it is running."""

    def __init__(
        self,
        callers: Callers,
        payloads: Payloads,
        clock: Clock,
        patience: float,
        emit: Observer,
        checks: StartChecks | None = None,
    ) -> None:
        self._callers = callers
        self._payloads = payloads
        self._clock = clock
        self._emit = emit
        self._checks = checks or StartChecks()
        self.patience = patience  # seconds for an execution to end in once it was told to
        self.running: dict[TaskKey, RunningExecution] = {}  # of each task its newest
        self._superseded: set[RunningExecution] = set()  # by a newer claim of their task
        self.preemptible: set[RunningExecution] = set()  # of those, by their own word
        self._stopping: set[RunningExecution] = set()

    # An execution, from its delivery to its report

    def begin(
        self, delivery: Delivery, slot: "asyncio.Task[None]", started_at: float
    ) -> Report | RunningExecution:
        """Call the target of a delivery that has its payload and needs nobody's consent, up to
        where it waits for something. Most functions never do, so nothing is made for an execution
        before that: then this is its report. Else `finish` it. Raises only what must end the
        node."""
        context = TaskContext(delivery)
        seconds = delivery.timeout_seconds
        if seconds < LEAST_TIMEOUT:  # older rows may hold less
            seconds = LEAST_TIMEOUT
        try:
            if not self._checks.may_call(delivery):
                return Report(delivery)
            context.begin(started_at + seconds, self._clock.seconds, delivery.start_by)
            call = self._callers.of(delivery.target).call(delivery, delivery.payload, context)
            awaited = call.send(None)
        except StopIteration as ended:
            outcome: Outcome | None = ended.value
            if outcome is None:
                return Report(delivery)
            report = Report(delivery, outcome, started_at, self._clock.seconds())
            self._checks.called(report)
            return report
        except BaseException as error:  # noqa: BLE001 - raised again, if it must end the node
            execution = _called(delivery, slot, context, started_at)
            return self._report(execution, self._raised(execution, error))
        execution = _called(delivery, slot, context, started_at)
        spent = self._clock.seconds() - started_at
        execution.deadline = self._clock.monotonic() + seconds - max(0.0, spent)
        execution.call, execution.rest = call, resumed(call, awaited)
        self._know(execution)
        return execution

    async def finish(self, execution: RunningExecution) -> Report | None:
        """Await the rest of what was begun; gives what `run` gives."""
        assert execution.rest is not None, "it waits for something"
        return await self._ended(execution, execution.rest)

    async def run(
        self, delivery: Delivery, slot: "asyncio.Task[None]", may_start: MayStart
    ) -> Report | None:
        """Execute a task once, as `slot`. Gives a report whatever happens, or None where the
        execution was given up: then another slot has the place of this one. If the slot itself was
        cancelled, it still is. `may_start` is asked once more when its payload has come. Raises
        only what must end the node."""
        execution = RunningExecution(delivery, slot)
        self._know(execution)
        if delivery.payload_size is None:
            return await self._ended(execution, self._call(execution, delivery.payload))
        fetched = self._fetch_and_call(execution, delivery.payload_size, may_start)
        return await self._ended(execution, fetched)

    async def _ended(
        self, execution: RunningExecution, call: Awaitable[Outcome | None]
    ) -> Report | None:
        slot = execution.slot
        try:
            outcome = await call
        except BaseException as error:  # noqa: BLE001 - raised again, if it must end the node
            outcome = self._raised(execution, error)
        finally:
            if execution.stop is not None:
                # The cancellation was not meant for the slot; also where the execution ended well
                # although it was told to stop. Any other cancellation stays.
                slot.uncancel()
            self._forget(execution)
        if execution.given_up:
            self._returned(execution, self._told_at(execution), in_thread=False)
            return None
        return self._report(
            execution, outcome if execution.stop is None else execution.came_to(outcome)
        )

    def _raised(self, execution: RunningExecution, error: BaseException) -> Outcome | None:
        """The outcome of a call that raised this; raises it where it must end the node."""
        if isinstance(error, asyncio.CancelledError):
            return self._interrupted(execution, error)
        if isinstance(error, TooManyHung):
            raise error  # the node can call no more handlers
        if isinstance(error, GeneratorExit):
            if asyncio.current_task() is not execution.slot:
                raise error  # the slot is being closed
            return None if execution.context.unbegun else execution.failed(error)
        log.error("a target failed inside Gnomon", exc_info=error, **about(execution.delivery))
        detail = f"internal error: {type(error).__name__}"
        return Outcome(OutcomeKind.FAILED, error=detail, uncalled=True, internal=True)

    async def _fetch_and_call(
        self, execution: RunningExecution, size: int, may_start: MayStart
    ) -> Outcome | None:
        delivery = execution.delivery
        # Until the call begins, whatever it waits for is not the target's time.
        execution.started_at = now = self._clock.seconds()
        execution.deadline = self._clock.monotonic() + max(0.0, delivery.start_by - now)
        async with self._payloads.room(size):
            try:
                payload = await self._payloads.fetch(delivery.key)
            except StoreUnavailable as error:
                log.warning("a payload cannot be read now", why=str(error), **about(delivery))
                return None
            if payload is None:
                return _PAYLOAD_GONE
            if not may_start(delivery, self._clock.seconds()):
                return None  # the lease may have run out meanwhile
            return await self._call(execution, payload)

    async def _call(self, execution: RunningExecution, payload: bytes | None) -> Outcome | None:
        """Call the target: its time counts from here. None where that may not be."""
        delivery = execution.delivery
        execution.started_at = self._clock.seconds()
        if execution.stop is not None or not self._checks.may_call(delivery):
            return None  # told to stop before, it may have been released
        execution.begun = True
        seconds = delivery.timeout_seconds
        if seconds < LEAST_TIMEOUT:  # older rows may hold less
            seconds = LEAST_TIMEOUT
        execution.deadline = self._clock.monotonic() + seconds
        deadline = execution.started_at + seconds
        execution.context.begin(deadline, self._clock.seconds, delivery.start_by)
        caller = self._callers.of(delivery.target)
        execution.call = call = caller.call(delivery, payload, execution.context)
        return await call

    def _interrupted(
        self, execution: RunningExecution, told: asyncio.CancelledError
    ) -> Outcome | None:
        if isinstance(told, LeftRunning):
            self._leave_in_thread(execution, told.returned)
        elif execution.context.unbegun:
            return None
        if isinstance(told, Interrupted):
            execution.where = told.where
        elif execution.stop is None:
            execution.where = traceback_of(told)
        return execution.cut_short(_IN_THREAD if isinstance(told, LeftRunning) else "")

    def _report(self, execution: RunningExecution, outcome: Outcome | None) -> Report:
        if outcome is None:
            return Report(execution.delivery)
        report = Report(execution.delivery, outcome, execution.started_at, self._clock.seconds())
        self._checks.called(report)
        return report

    # Before the call

    def awaited(self, delivery: Delivery) -> Awaitable[None] | None:
        """A wait for what its call needs, until it must be released at the latest."""
        waiting = self._callers.of(delivery.target).ready(delivery)
        return None if waiting is None else self._until_late(waiting, delivery.start_by)

    async def _until_late(self, waiting: Awaitable[object], start_by: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, start_by - self._clock.seconds())):
                await waiting

    # Executions that are told to stop

    def interrupt(
        self,
        key: TaskKey,
        reason: str,
        kind: OutcomeKind = OutcomeKind.CANCELLED,
        fence: int | None = None,
    ) -> bool:
        """End the executions of a task, of this claim if there is one given; False where there is
        none."""
        found = [e for e in self._of(key) if is_of(e.delivery, fence)]
        for execution in found:
            self._stop(execution, kind, reason)
        return bool(found)

    def interrupt_all(self, reason: str) -> None:
        for execution in self._all():
            self._stop(execution, OutcomeKind.CANCELLED, reason)

    def giving_way(self) -> int:
        """How many executions were made to, and have not ended."""
        return sum(execution.is_preempted for execution in self._stopping)

    def preempt(self, most: int) -> list[Delivery]:
        """End up to so many executions for the sake of something more urgent; gives which."""
        chosen = preemption_order(self.preemptible)[:most]
        for execution in chosen:
            self._stop(execution, OutcomeKind.PREEMPTED, _PREEMPTED)
        return [execution.delivery for execution in chosen]

    def end_overdue(self) -> None:
        """End the executions whose time is up. One look at all of them, every now and then, costs
        far less than a timer for each."""
        now = self._clock.monotonic()
        for execution in self._all():
            if execution.deadline <= now and execution.is_overdue(now):
                reason = f"did not end within {execution.delivery.timeout_seconds:g} s"
                self._stop(execution, OutcomeKind.TIMED_OUT, reason)

    def give_up(self, *, at_once: bool = False) -> list[GivenUp]:
        """The executions that go on although they were told to stop, with their slots, and the
        only reports that there will be of them."""
        now = self._clock.monotonic()
        latest = now if at_once else now - self.patience
        late = [e for e in self._stopping if self._told_at(e) <= latest]
        return [self._give_up(execution, now) for execution in late]

    def _stop(self, execution: RunningExecution, kind: OutcomeKind, reason: str) -> None:
        if execution.stop is None:
            self._stopping.add(execution)
            execution.interrupt(Stop(kind, reason, self._clock.monotonic()))

    def _told_at(self, execution: RunningExecution) -> float:
        """When it was told to stop: now, if by something else than an interrupt."""
        return self._clock.monotonic() if execution.stop is None else execution.stop.at

    def _give_up(self, execution: RunningExecution, now: float) -> GivenUp:
        execution.given_up = True
        execution.look()
        self._forget(execution)
        handler = execution.handler(in_thread=False)
        self._emit(HandlerHung(handler, now - self._told_at(execution)))
        return execution.slot, self._report(execution, execution.cut_short(_IGNORED))

    def _leave_in_thread(
        self, execution: RunningExecution, returned: "asyncio.Future[None]"
    ) -> None:
        handler = execution.handler(in_thread=True)
        told_at = self._told_at(execution)
        self._emit(HandlerHung(handler, self._clock.monotonic() - told_at))
        returned.add_done_callback(lambda _: self._returned(execution, told_at, in_thread=True))

    def _returned(self, execution: RunningExecution, told_at: float, *, in_thread: bool) -> None:
        seconds = self._clock.monotonic() - told_at
        self._emit(HandlerReturned(execution.handler(in_thread=in_thread), seconds))

    def _know(self, execution: RunningExecution) -> None:
        delivery = execution.delivery
        # One that goes on although its claim was lost, and the task claimed again by this node.
        older = self.running.get(delivery.key)
        if older is not None:
            self._superseded.add(older)
        self.running[delivery.key] = execution
        if delivery.preemptible:
            self.preemptible.add(execution)

    def _forget(self, execution: RunningExecution) -> None:
        if execution.stop is not None:
            self._stopping.discard(execution)
        delivery = execution.delivery
        if delivery.preemptible:
            self.preemptible.discard(execution)
        if self.running.get(delivery.key) is execution:
            del self.running[delivery.key]
        else:
            self._superseded.discard(execution)

    def _of(self, key: TaskKey) -> list[RunningExecution]:
        newest = self.running.get(key)
        older = [e for e in self._superseded if e.delivery.key == key]
        return older if newest is None else [newest, *older]

    def _all(self) -> list[RunningExecution]:
        return [*self.running.values(), *self._superseded]


def is_of(delivery: Delivery, fence: int | None) -> bool:
    """Whether it is of the claim with this fence; None: of any."""
    return fence is None or delivery.fence == fence


def _called(
    delivery: Delivery, slot: "asyncio.Task[None]", context: TaskContext, started_at: float
) -> RunningExecution:
    """An execution whose call was made."""
    execution = RunningExecution(delivery, slot, context)
    execution.started_at = started_at
    execution.begun = True
    return execution


@coroutine
def resumed(
    call: Coroutine[Any, Any, Outcome | None], awaited: Any
) -> Generator[Any, Any, Outcome | None]:
    """The rest of a coroutine that was stepped once, and waits for something."""
    outcome: Outcome | None
    while True:
        try:
            yield awaited
        except GeneratorExit:
            call.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it is meant for the call
            try:
                awaited = call.throw(error)
            except StopIteration as ended:
                outcome = ended.value
                return outcome
        else:
            outcome = yield from call  # which this is one of, to the interpreter
            return outcome
