"""Turns reports into verdicts, and writes them in fenced batches."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import msgspec
import structlog

from gnomon.clock import Chance, Clock
from gnomon.model.errors import StoreUnavailable, Unstorable
from gnomon.model.outcome import OutcomeKind
from gnomon.model.task import TaskKey
from gnomon.model.verdict import EXPIRE, Verdict, decide, is_suspect, release
from gnomon.pipe.envelope import Report
from gnomon.pipe.port import Pipe
from gnomon.scheduler.dispatcher import Dispatcher
from gnomon.scheduler.scanner import Scanner
from gnomon.store.port import DispatchStore, Entry, Settled, Settlement

log = structlog.get_logger("gnomon.scheduler")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class RecordResult(msgspec.Struct, frozen=True):
    """What a round wrote, and what was refused as stale."""

    settled: int = 0
    refused: int = 0


class Recorder:
    """Settles whatever was reported since it last looked."""

    def __init__(
        self,
        store: DispatchStore,
        pipe: Pipe,
        dispatcher: Dispatcher,
        scanner: Scanner,
        clock: Clock,
        chance: Chance,
        *,
        worker: str,
        horizon_seconds: float,
        on_ended: Callable[[Iterable[TaskKey]], None],
    ) -> None:
        self._on_ended = on_ended
        self._store = store
        self._pipe = pipe
        self._dispatcher = dispatcher
        self._scanner = scanner
        self._clock = clock
        self._chance = chance
        self._worker = worker
        self._horizon = timedelta(seconds=horizon_seconds)

    async def run_once(self, most: int) -> RecordResult:
        """Wait for reports, and write them, however long PostgreSQL is away."""
        reports = await self._pipe.reports(most)
        settlements = [self._settlement(report) for report in reports]
        settled = await self._written(settlements)
        self._dispatcher.released(reports)
        self._pipe.settled(reports)
        self._plan_next(reports, settled)
        self._tell_ended(settled)
        refused = _refused(reports, settled)
        if refused:
            # Swept as lost in the meantime, or written by an attempt whose answer was lost.
            log.warning("settlements were refused as stale", refused=refused)
        return RecordResult(settled=len(settled), refused=refused)

    def _tell_ended(self, settled: Sequence[Settled]) -> None:
        jobs = {
            TaskKey(s.key.tenant_id, s.cron_job_id)
            for s in settled
            if s.cron_job_id is not None and s.ended
        }
        if jobs:
            self._on_ended(jobs)

    def _settlement(self, report: Report) -> Settlement:
        delivery, outcome = report.delivery, report.outcome
        key, fence, incarnation = delivery.key, delivery.fence, delivery.incarnation
        verdict = self._verdict(report)
        if outcome is None:
            return Settlement(key, fence, incarnation, verdict, worker=self._worker)
        return Settlement(
            key,
            fence,
            incarnation,
            verdict,
            outcome.kind,
            report.started_at,
            report.finished_at,
            self._worker,
            outcome.error,
            outcome.response_status,
            outcome.response_body,
            outcome.result,
        )

    def _verdict(self, report: Report) -> Verdict:
        delivery = report.delivery
        if delivery.expired:
            return EXPIRE
        if report.outcome is None:
            return release(delivery)
        return decide(report.outcome, delivery, self._chance())

    async def _written(self, settlements: Sequence[Settlement]) -> list[Settled]:
        try:
            return await self._patiently(settlements)
        except Unstorable:
            return await self._one_by_one(settlements)

    async def _patiently(self, settlements: Sequence[Settlement]) -> list[Settled]:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._store.settle(settlements)
            except StoreUnavailable as error:
                log.warning("outcomes wait for PostgreSQL", count=len(settlements), why=str(error))
                await self._clock.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)

    async def _one_by_one(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """One outcome cannot be stored: keep its batch mates, and its bare facts."""
        settled: list[Settled] = []
        for settlement in settlements:
            try:
                settled += await self._patiently([settlement])
            except Unstorable as error:
                settled += await self._bare(settlement, error)
        return settled

    async def _bare(self, settlement: Settlement, error: Unstorable) -> list[Settled]:
        bare = msgspec.structs.replace(
            settlement,
            error=f"the details of this try could not be stored: {error}"[:500],
            response_body=None,
            result=None,
        )
        try:
            return await self._patiently([bare])
        except Unstorable as reason:
            why = str(reason)
        # Giving the task back would run it over and over. So it stays running, for good.
        self._dispatcher.stuck[settlement.key] = settlement.fence
        log.error("an outcome cannot be stored", task_id=str(settlement.key.id), why=why)
        return []

    def _plan_next(self, reports: Sequence[Report], settled: Sequence[Settled]) -> None:
        """Put what waits again for a time near by straight back on the agenda."""
        again = {s.key: s.due_at for s in settled if s.due_at is not None}
        if not again:
            return
        until = self._clock.now() + self._horizon
        entries = []
        for report in reports:
            delivery = report.delivery
            due_at = again.get(delivery.key)
            if due_at is not None and due_at <= until:
                suspect = _as_lost_as_before(report) and is_suspect(delivery.losses)
                entries.append(
                    Entry(delivery.key, due_at, delivery.lane, suspect, flow=delivery.flow)
                )
        self._scanner.hinted(entries)


def _as_lost_as_before(report: Report) -> bool:
    """Whether the try says nothing about the losses of its task."""
    return report.outcome is None or report.outcome.kind is OutcomeKind.PREEMPTED


def _refused(reports: Sequence[Report], settled: Sequence[Settled]) -> int:
    """How many were stale. One whose function has completed it in its own transaction was not: it
    is settled, as it should be."""
    if len(settled) == len(reports):
        return 0
    accepted = {s.key for s in settled}
    return sum(
        report.delivery.key not in accepted
        and not (report.outcome is not None and report.outcome.completed_by_handler)
        for report in reports
    )
