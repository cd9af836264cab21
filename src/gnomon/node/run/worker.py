"""The slots of a node: long-lived coroutines that take tasks from the pipe and run them."""

import asyncio
from collections.abc import Awaitable

import structlog

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.outcomes.verdict import asks_before_start
from gnomon.model.tasks.task import TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.node.run.runner import Runner, is_of
from gnomon.node.run.running_execution import RunningExecution
from gnomon.node.run.slot_pool import SlotPool
from gnomon.node.run.starter import Starter
from gnomon.observe.log_fields import about
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.port import SlotPipe
from gnomon.sdk.executing.failure import describe, traceback_of

log = structlog.get_logger("gnomon.node.run")

_PACE_SECONDS = 0.5
_LONGEST_TURN = 0.01  # seconds that a slot goes from one task to the next without a pause
TIMEOUT_RESOLUTION = 0.05  # seconds that a timeout may be late


class Worker:
    """`slots` tasks at once, without a coroutine being made for any of them. One that ignores
    being told to stop keeps its coroutine, but not its place."""

    def __init__(
        self,
        pipe: SlotPipe,
        runner: Runner,
        starter: Starter,
        lease: Lease,
        clock: Clock,
        slots: int,
    ) -> None:
        self._pipe = pipe
        self._runner = runner
        self._starter = starter
        self._lease = lease
        self._clock = clock
        self._slots = SlotPool(self._slot, slots, clock, runner.patience)
        self.draining = False
        # Deliveries whose calls need something, with their slots.
        self._awaiting: dict[TaskKey, tuple[Delivery, asyncio.Task[None]]] = {}
        self._told: set[asyncio.Task[None]] = set()  # of these slots, to wait no longer

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._starter.run())
            group.create_task(self._keep_time())
            group.create_task(self._keep_pace())
            group.create_task(self._slots.run())

    def drain(self) -> None:
        """Start nothing more; release what no slot has begun."""
        self.draining = True
        for key in list(self._awaiting):
            self._stop_waiting(key)
        for delivery in self._pipe.unsent():
            self._pipe.report(Report(delivery))

    def release_late(self) -> None:
        """Release what waits for a slot longer than it may: others have one."""
        for delivery in self._pipe.late(self._clock.seconds()):
            self._pipe.report(Report(delivery))

    def interrupt(
        self,
        key: TaskKey,
        reason: str,
        kind: OutcomeKind = OutcomeKind.CANCELLED,
        fence: int | None = None,
    ) -> bool:
        """End a running task, of this claim if there is one given; False where it does not run
        here."""
        held = self._pipe.take_back(self._pipe.held(key, fence))
        for delivery in held:  # claimed ahead of its time, and not called
            self._pipe.report(Report(delivery))
        # A later claim of it may have begun.
        told = self._stop_waiting(key, fence) or self._runner.interrupt(key, reason, kind, fence)
        return told or bool(held)

    def interrupt_all(self, reason: str) -> None:
        self._runner.interrupt_all(reason)

    def give_up_hung(self, *, at_once: bool = False) -> None:
        """Report what goes on although it was told to stop, and replace its slots."""
        for slot, report in self._runner.give_up(at_once=at_once):
            self._pipe.report(report)
            self._slots.replace(slot)

    async def _slot(self) -> None:
        slot = asyncio.current_task()
        assert slot is not None
        pipe, runner = self._pipe, self._runner
        yielded_at = self._clock.seconds()
        while True:
            delivery = pipe.take()
            if delivery is None:
                delivery = await pipe.receive()
                yielded_at = self._clock.seconds()
            report: Report | None = Report(delivery)
            if self._may_start(delivery, now := self._clock.seconds()):
                waiting = runner.awaited(delivery)
                asks = asks_before_start(delivery.mode, delivery.losses)
                at_once = waiting is None and delivery.payload_size is None and not asks
                if at_once or await self._is_ready(waiting, delivery):
                    try:
                        if not at_once:
                            report = await runner.run(delivery, slot, self._may_start)
                        elif type(begun := runner.begin(delivery, slot, now)) is Report:
                            report = begun
                        else:
                            assert type(begun) is RunningExecution
                            report = await runner.finish(begun)
                            yielded_at = self._clock.seconds()
                    except (GeneratorExit, RuntimeError) as error:
                        report = self._broken(delivery, slot, error)
            if report is None:
                return  # it hung, and was replaced
            if not self._slots.ending:  # what the end cuts off is not the fault of the task
                self._pipe.report(report)
            if slot.cancelling():
                return  # told to stop, by its owner or by a handler
            ended_at = report.finished_at
            if ended_at is not None and ended_at - yielded_at > _LONGEST_TURN:
                await self._clock.sleep(0)  # others need the loop
                yielded_at = self._clock.seconds()

    async def _is_ready(self, waiting: Awaitable[None] | None, delivery: Delivery) -> bool:
        """Wait for what the call needs; gives whether it can be made now. The store marks the task
        as begun only then: what is lost while it waits was surely not called."""
        if waiting is not None and not (
            await self._has_come(waiting, delivery)
            and self._may_start(delivery, self._clock.seconds())
        ):
            return False
        return not delivery.asks or await self._consents(delivery)

    def _broken(
        self, delivery: Delivery, slot: "asyncio.Task[None]", error: BaseException
    ) -> Report:
        """A function has waited for a future with such an error: asyncio throws it at the outermost
        coroutine, which is the slot's, and closes those within."""
        if asyncio.current_task() is not slot:
            raise error  # this slot is being closed
        failed = Outcome(OutcomeKind.FAILED, error=describe(error), traceback=traceback_of(error))
        return Report(delivery, failed)

    async def _has_come(self, waiting: Awaitable[None], delivery: Delivery) -> bool:
        """Whether the wait came to its end. It may not where it is cancelled or fails, or the
        delivery would be lost with the slot."""
        slot, key = asyncio.current_task(), delivery.key
        assert slot is not None
        self._awaiting[key] = waits = delivery, slot
        try:
            return await self._has_ended(waiting, delivery)
        except asyncio.CancelledError:
            if slot in self._told:
                slot.uncancel()  # it was not meant for the slot
            return False
        finally:
            self._told.discard(slot)
            if self._awaiting.get(key) is waits:
                del self._awaiting[key]

    async def _has_ended(self, waiting: Awaitable[None], delivery: Delivery) -> bool:
        try:
            await waiting
        except Exception:  # whatever it is: it must not end the slot, and with it the node
            log.exception(
                "waiting for what a call needs has failed: the task is released",
                **about(delivery),
            )
            await self._clock.sleep(_PACE_SECONDS)  # it may be claimed again at once
            return False
        return True

    def _stop_waiting(self, key: TaskKey, fence: int | None = None) -> bool:
        """Release a task that waits to be called; False where it does not."""
        waits = self._awaiting.get(key)
        if waits is None or not is_of(waits[0], fence):
            return False
        del self._awaiting[key]
        slot = waits[1]
        self._told.add(slot)
        return slot.cancel()

    async def _consents(self, delivery: Delivery) -> bool:
        """Whether the store agrees to the call. It may not be made where the slot is cancelled
        meanwhile: the delivery would be lost with the slot."""
        try:
            consent = await self._starter.may_begin(delivery)
        except asyncio.CancelledError:
            return False
        # The lease may have run out while the store was asked.
        return consent and self._may_start(delivery, self._clock.seconds())

    def _may_start(self, delivery: Delivery, now: float) -> bool:
        return (
            not self.draining
            and not delivery.expired
            and now <= delivery.start_by
            and self._lease.is_trusted(self._clock.monotonic())
        )

    async def _keep_time(self) -> None:
        while True:
            await self._clock.sleep(TIMEOUT_RESOLUTION)
            self._runner.end_overdue()
            self.give_up_hung()

    async def _keep_pace(self) -> None:
        while True:
            await self._clock.sleep(_PACE_SECONDS)
            self._pipe.pace()
            self.release_late()
