"""Turns reports into verdicts, and writes them in fenced batches."""

from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import timedelta

import msgspec
import structlog

from gnomon.chores import About, Troubles, about_task, isolated
from gnomon.clock import Chance, Clock
from gnomon.model.errors import (
    BrokenInvariant,
    StatementRefused,
    StoreError,
    StoreUnavailable,
    Unstorable,
)
from gnomon.model.task import TaskKey
from gnomon.model.verdict import EXPIRE, Verdict, decide, release
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.pipe.envelope import Report
from gnomon.pipe.port import Pipe
from gnomon.store.ports.dispatch import Burial, DispatchStore, Entry, Settled, Settlement

log = structlog.get_logger("gnomon.node")

CHORE = "record"
_REMEDY = "it has run, and its row cannot be written; it is tried again by itself"


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
        troubles: Troubles,
        *,
        worker: str,
        horizon_seconds: float,
        on_ended: Callable[[Iterable[TaskKey]], None],
    ) -> None:
        self._troubles = troubles
        self._unsettled: dict[TaskKey, Settlement] = {}  # bare ones that cannot be stored
        self._failed: deque[Report] = deque()  # that something unforeseen kept from being settled
        self._on_ended = on_ended
        self._store = store
        self._pipe = pipe
        self._dispatcher = dispatcher
        self._held = dispatcher.held
        self._scanner = scanner
        self._clock = clock
        self._chance = chance
        self._worker = worker
        self._horizon = timedelta(seconds=horizon_seconds)

    async def run_once(self, most: int) -> RecordResult:
        """Wait for reports, and write them, however long PostgreSQL is away."""
        return await self._record(await self._pipe.reports(most))

    async def _record(self, reports: Sequence[Report]) -> RecordResult:
        try:
            settlements = [self._settlement(report) for report in reports]
            settled = await self._written(settlements)
        except Exception:
            self._failed += reports  # nobody else has them, and they hold slots
            raise
        self._dispatcher.released(reports)
        self._pipe.settled(reports)
        self._plan_next(reports, settlements, settled)
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
        """One outcome that cannot be stored does not keep its batch mates back."""
        while True:
            try:
                return await isolated(settlements, self._patiently, self._bare)
            except StoreError as error:  # all of them are refused
                await self._clock.sleep(self._troubles.note(CHORE, error))

    async def _patiently(self, settlements: Sequence[Settlement]) -> list[Settled]:
        while True:
            try:
                return await self._store.settle(settlements)
            except StoreUnavailable as error:
                await self._clock.sleep(self._troubles.note(CHORE, error))

    async def _bare(self, settlement: Settlement, error: StoreError) -> list[Settled]:
        """Keep the bare facts of a try whose details cannot be stored."""
        bare = msgspec.structs.replace(
            settlement,
            error=f"the details of this try could not be stored: {error}"[:500],
            response_body=None,
            result=None,
        )
        try:
            return await self._patiently([bare])
        except (Unstorable, StatementRefused) as reason:
            # Giving the task back would run it over and over. So it stays running meanwhile.
            self._held.stuck[settlement.key] = settlement.fence
            self._unsettled[settlement.key] = bare
            self._troubles.note(CHORE, reason, about_task(settlement.key), _REMEDY)
            return []

    async def settle_again(self) -> int:
        """Settle what could not be; gives how many were. What is refused for good becomes a dead
        letter."""
        if not self._unsettled and not self._failed:
            return 0
        aside = set(self._troubles.aside(CHORE))
        done = await self._record_again(aside)
        for key, bare in list(self._unsettled.items()):
            about = about_task(key)
            if about in aside:
                continue
            try:
                settled = await self._settle_or_bury(bare)
            except (Unstorable, StatementRefused) as error:
                self._troubles.note(CHORE, error, about, _REMEDY)
                continue
            del self._unsettled[key]
            self._held.stuck.pop(key, None)
            self._troubles.over(CHORE, about)
            self._tell_ended(settled)
            done += 1
        return done

    async def _record_again(self, aside: Container[About]) -> int:
        """One by one: whichever was at fault keeps the others back no longer."""
        done = 0
        for _ in range(len(self._failed)):
            report = self._failed.popleft()
            about = about_task(report.delivery.key)
            if about in aside:
                self._failed.append(report)
                continue
            try:
                await self._record([report])
            except BrokenInvariant:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this one alone
                self._troubles.note(CHORE, error, about, _REMEDY)
                continue
            self._troubles.over(CHORE, about)
            done += 1
        return done

    async def _settle_or_bury(self, bare: Settlement) -> list[Settled]:
        try:
            return await self._store.settle([bare])
        except Unstorable as error:
            reason = f"its outcome cannot be stored: {error}"[:500]
            await self._store.bury(bare.incarnation, [Burial(bare.key, bare.fence, reason)])
            return []

    def _plan_next(
        self,
        reports: Sequence[Report],
        settlements: Sequence[Settlement],
        settled: Sequence[Settled],
    ) -> None:
        """Put what waits again for a time near by straight back on the agenda."""
        again = {s.key: s.due_at for s in settled if s.due_at is not None}
        if not again:
            return
        until = self._clock.now() + self._horizon
        entries = []
        for report, settlement in zip(reports, settlements, strict=True):
            delivery, losses = report.delivery, settlement.verdict.losses
            due_at = again.get(delivery.key)
            if due_at is not None and due_at <= until:
                entries.append(
                    Entry(delivery.key, due_at, delivery.lane, losses, flow=delivery.flow)
                )
        self._scanner.hinted(entries)


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
