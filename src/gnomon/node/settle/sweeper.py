"""Finds running tasks that nobody runs, and gives them another chance."""

from collections.abc import Sequence

import msgspec
import structlog

from gnomon.chores import Troubles, about_task, isolated
from gnomon.clock import Chance, Clock
from gnomon.model.errors import StoreError
from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.model.task import DeliveryMode
from gnomon.model.verdict import asks_before_start, decide, release
from gnomon.node.dispatch.dispatcher import BURIED_REMEDY
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.run.worker import Worker
from gnomon.store.ports.dispatch import Burial, DispatchStore, RunningTask, Settled, Settlement

log = structlog.get_logger("gnomon.node")

_LOST = Outcome(OutcomeKind.LOST, error="its node died while it ran")
_LOST_FOR_GOOD = "its node died after it had begun, and at_most_once is never tried again"
_OVERDUE = Outcome(
    OutcomeKind.TIMED_OUT, error="it did not end within its timeout and grace, and was taken over"
)
BATCH = 500
_REMEDY = "nobody runs it, and its row cannot be written: delete the task"


class SweepResult(msgspec.Struct, frozen=True):
    """What a sweep found."""

    lost: int = 0
    overdue: int = 0


class Sweeper:
    """Sweeps after dead nodes, and after this node's own forgetfulness."""

    def __init__(
        self,
        store: DispatchStore,
        held: HeldTasks,
        worker: Worker,
        lease: Lease,
        clock: Clock,
        chance: Chance,
        troubles: Troubles,
    ) -> None:
        self._troubles = troubles
        self._store = store
        self._held = held
        self._worker = worker
        self._lease = lease
        self._clock = clock
        self._chance = chance

    async def run_once(self) -> SweepResult:
        """Take over the tasks of dead nodes."""
        lost, orphans = 0, BATCH
        while orphans == BATCH:
            rows = await self._store.orphans(BATCH, overdue=False)
            settled = len(await self._settle(self._taken_over(rows, _LOST)))
            orphans = len(rows) if settled else 0  # no use in meeting the same ones again
            lost += settled
        if lost:
            log.warning("took over tasks of dead nodes", count=lost)
        return SweepResult(lost=lost)

    async def take_overdue(self) -> SweepResult:
        """Take over what should have ended. Only after a whole lease without trouble: outcomes
        that waited for PostgreSQL to come back are written first."""
        if not self._lease.may_judge(self._clock.monotonic()):
            return SweepResult()
        rows = await self._store.orphans(BATCH, overdue=True)
        overdue = await self._settle(self._taken_over(rows, _OVERDUE))
        if overdue:
            log.warning("took over tasks past their time", count=len(overdue))
        return SweepResult(overdue=len(overdue))

    async def reconcile(self) -> int:
        """Give back what the store says we run and we do not; gives how many. It happens when the
        answer to a claim was lost. And interrupt what was cancelled while a hint went astray."""
        async with self._held.claiming:
            before = dict(self._held.fences)
            rows = await self._store.running_on(self._lease.incarnation)
        # What was held before the look and is not after it was settled meanwhile.
        unknown = [
            r for r in rows if before.get(r.key) != r.fence and not self._held.holds(r.key, r.fence)
        ]
        for row in rows:
            if row.cancel_requested:
                self._worker.interrupt(row.key, "cancelled")
        if not unknown:
            return 0
        given_back = await self._settle([_given_back(row) for row in unknown])
        if given_back:
            log.warning("released tasks whose claim was answered but lost", count=len(given_back))
        return len(given_back)

    async def _settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        if not settlements:
            return []
        return await isolated(settlements, self._store.settle, self._bury)

    async def _bury(self, settlement: Settlement, error: StoreError) -> list[Settled]:
        """One that cannot be settled must not keep the others from it."""
        about, reason = about_task(settlement.key), f"it cannot be taken over: {error}"[:500]
        try:
            burial = Burial(settlement.key, settlement.fence, reason)
            await self._store.bury(settlement.incarnation, [burial])
        except StoreError as refused:
            self._troubles.note("sweep", refused, about, _REMEDY)
        else:
            self._troubles.note("sweep", error, about, BURIED_REMEDY)
        return []

    def _taken_over(self, rows: Sequence[RunningTask], outcome: Outcome) -> list[Settlement]:
        return [_taken_over(row, outcome, self._chance()) for row in rows]


def _taken_over(row: RunningTask, outcome: Outcome, chance: float) -> Settlement:
    if asks_before_start(row.mode, row.losses) and not row.begun:
        return _given_back(row)  # claimed and not started: no loss
    return Settlement(
        key=row.key,
        fence=row.fence,
        incarnation=row.incarnation,
        verdict=decide(outcome, row, chance),
        outcome=outcome.kind,
        worker=row.worker,
        error=_error(outcome, row.mode),
    )


def _given_back(row: RunningTask) -> Settlement:
    return Settlement(row.key, row.fence, row.incarnation, release(row), unbegun=True)


def _error(outcome: Outcome, mode: DeliveryMode) -> str | None:
    if outcome is _LOST and mode is DeliveryMode.AT_MOST_ONCE:
        return _LOST_FOR_GOOD
    return outcome.error
