"""Takes over running tasks whose node is dead, and those that should have ended."""

from collections.abc import Sequence
from functools import partial

import msgspec
import structlog

from gnomon.clock import Chance, Clock
from gnomon.model.outcomes.outcome import Loss, Outcome, OutcomeKind
from gnomon.model.outcomes.quarantine import group_size, is_suspect
from gnomon.model.outcomes.verdict import asks_before_start, decide
from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.takeover import Takeover, released
from gnomon.observe.node_events import Recovery
from gnomon.store.ports.dispatch import DispatchStore, RunningTask, Settlement

log = structlog.get_logger("gnomon.node")

_LOST = Outcome(OutcomeKind.LOST, error="its node died while it ran")
_LOST_FOR_GOOD = "its node died after it had begun, and at_most_once is never tried again"
_OVERDUE = Outcome(
    OutcomeKind.TIMED_OUT, error="it did not end within its timeout and grace, and was taken over"
)
BATCH = 500


class SweepResult(msgspec.Struct, frozen=True):
    """How many tasks a sweep took over."""

    lost: int = 0
    overdue: int = 0


class Sweeper:
    """Sweeps after dead nodes."""

    def __init__(
        self, store: DispatchStore, takeover: Takeover, lease: Lease, clock: Clock, chance: Chance
    ) -> None:
        self._store = store
        self._takeover = takeover
        self._lease = lease
        self._clock = clock
        self._chance = chance

    async def run_once(self) -> SweepResult:
        """Take over the tasks of dead nodes."""
        lost, orphans = 0, BATCH
        while orphans == BATCH:
            rows = await self._store.orphans(BATCH, overdue=False)
            settled = await self._settle(rows, _LOST, Recovery.NODE_LOST)
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
        overdue = await self._settle(rows, _OVERDUE, Recovery.OVERDUE)
        if overdue:
            log.warning("took over tasks past their time", count=overdue)
        return SweepResult(overdue=overdue)

    async def _settle(self, rows: Sequence[RunningTask], outcome: Outcome, reason: Recovery) -> int:
        return await self._takeover.settle(rows, partial(self._settlement, outcome), reason)

    def _settlement(self, outcome: Outcome, row: RunningTask) -> Settlement:
        if row.early or (asks_before_start(row.mode, row.losses) and not row.begun):
            return released(row)  # claimed and not started: no loss
        if outcome is _LOST:
            outcome = _loss(row)
        return Settlement(
            key=row.key,
            fence=row.fence,
            incarnation=row.incarnation,
            verdict=decide(outcome, row, self._chance()),
            outcome=outcome.kind,
            worker=row.worker,
            error=_error(outcome, row.mode),
            task_type=row.task_type,
            internal=True,
        )


def _loss(row: RunningTask) -> Outcome:
    """A session has no quarantine: it is one, for the one suspect that it has at a time. Only for a
    suspect that was alone in it is it a process that has run nothing else."""
    if not row.remote or not is_suspect(row.losses):
        return _LOST
    alone = group_size(row.losses, row.mode) == 1
    return msgspec.structs.replace(_LOST, loss=Loss.ALONE if alone else Loss.IN_GROUP)


def _error(outcome: Outcome, mode: DeliveryMode) -> str | None:
    if outcome.kind is OutcomeKind.LOST and mode is DeliveryMode.AT_MOST_ONCE:
        return _LOST_FOR_GOOD
    return outcome.error
