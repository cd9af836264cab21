"""Turns reports into verdicts, and writes them in fenced batches."""

from collections import deque
from collections.abc import Callable, Collection, Container, Sequence
from functools import partial

import msgspec
import structlog

from gnomon.chores import About, about_task
from gnomon.model.errors import BrokenInvariant
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE
from gnomon.model.tasks.task import TaskKey
from gnomon.model.workflow_errors import SpawnRefused
from gnomon.node.claims import Claims
from gnomon.node.settle.child_claimer import ChildClaimer
from gnomon.node.settle.follow_up import FollowUp
from gnomon.node.settle.settlement_writer import CHORE, REMEDY, SettlementWriter
from gnomon.node.settle.settlement_writer import Settle as SettleBatch
from gnomon.pipe.envelope import Report
from gnomon.pipe.port import Pipe
from gnomon.sdk.executing.failure import MAX_ERROR
from gnomon.store.ports.dispatch import Settled, Settlement

log = structlog.get_logger("gnomon.node")

Settle = Callable[[Report], Settlement]


class RecordResult(msgspec.Struct, frozen=True):
    """How many settlements were written, and how many refused as stale."""

    settled: int = 0
    refused: int = 0


class Recorder:
    """Settles whatever was reported since it last looked."""

    def __init__(
        self,
        pipe: Pipe,
        settlement_of: Settle,
        writer: SettlementWriter,
        claims: Claims,
        follow_up: FollowUp,
        children: ChildClaimer | None = None,
    ) -> None:
        """`children`: has settlements claim what they make due; None: they do not."""
        self._children = children
        self._pipe = pipe
        self._settlement_of = settlement_of
        self._writer = writer
        self._claims = claims
        self._follow_up = follow_up
        self._troubles = writer.troubles
        self._unsettled: dict[TaskKey, Report] = {}  # whose settlements the writer keeps
        self._failed: deque[Report] = deque()  # that something unforeseen kept from being settled

    async def run_once(self, most: int, least: int = 1) -> RecordResult:
        """Wait for so many reports, and write them, however long PostgreSQL is unavailable."""
        reports = await self._pipe.reports(most, least)
        self._claims.reported(reports)
        return await self._record(reports)

    async def _record(self, reports: Sequence[Report]) -> RecordResult:
        settlement_of = self._settlement_of
        try:
            settlements = [settlement_of(report) for report in reports]
            if [each.spawns for each in settlements].count(None) < len(settlements):
                settled = await self._write_spawning(reports, settlements)
            else:
                settled = await self._writer.write(settlements, self._claiming(reports))
        except Exception:
            self._failed += reports  # nobody else has them, and they hold slots
            raise
        if self._writer.unsettled:
            kept = self._writer.unsettled
            self._unsettled |= {r.delivery.key: r for r in reports if r.delivery.key in kept}
        self._claims.settled(reports)
        if self._children is not None and settled and settled[0].taken is not None:
            self._children.send(settled[0].taken)
            self._pipe.settled(reports)
            await self._children.starting()
        else:
            self._pipe.settled(reports)
        self._follow_up.settled([report.delivery for report in reports], settlements, settled)
        refused, written = self._refused(reports, settlements, settled)
        self._acknowledge(reports, refused, written)
        stale = [report for report in refused if report.outcome is not None]
        if stale:
            # Swept as lost in the meantime, or written by an attempt whose answer was lost. Others
            # were not called, and have been taken back.
            log.warning("settlements were refused as stale", refused=len(stale))
        return RecordResult(settled=len(settled), refused=len(refused))

    def _claiming(self, reports: Sequence[Report]) -> SettleBatch | None:
        """How to settle these so that what they make due is claimed, if that is to be tried."""
        if self._children is None:
            return None
        taker = self._children.taker([report.delivery for report in reports])
        return None if taker is None else partial(self._children.settle, taker)

    async def _write_spawning(
        self, reports: Sequence[Report], settlements: list[Settlement]
    ) -> list[Settled]:
        """Those that have spawned are written one by one, each with what it has spawned. One that
        may not is a failure, and takes its place among the settlements."""
        plain = [settlement for settlement in settlements if settlement.spawns is None]
        settled = await self._writer.write(plain) if plain else []
        for place, report in enumerate(reports):
            settlement = settlements[place]
            if settlement.spawns is None:
                continue
            try:
                settled += await self._writer.write_spawning(settlement, report.delivery.origin)
            except SpawnRefused as error:
                failure = Outcome(
                    OutcomeKind.FAILED, error=str(error)[:MAX_ERROR], retryable=error.retryable
                )
                failed = msgspec.structs.replace(report, outcome=failure)
                settlements[place] = self._settlement_of(failed)
                settled += await self._writer.write([settlements[place]])
        return settled

    def _acknowledge(
        self, reports: Sequence[Report], refused: Sequence[Report], written: Collection[TaskKey]
    ) -> None:
        """What is kept to be written later is acknowledged then."""
        if not refused:
            self._pipe.acknowledge(reports, accepted=True)
            return
        kept = self._writer.unsettled
        stale = {r.delivery.key for r in refused if r.delivery.key not in written}
        accepted = [r for r in reports if r.delivery.key not in stale]
        self._pipe.acknowledge(accepted, accepted=True)
        others = [r for r in refused if r.delivery.key in stale and r.delivery.key not in kept]
        self._pipe.acknowledge(others, accepted=False)

    def _refused(
        self,
        reports: Sequence[Report],
        settlements: Sequence[Settlement],
        settled: Sequence[Settled],
    ) -> tuple[list[Report], set[TaskKey]]:
        """Those that were stale, and which of these an attempt before had written. One whose
        function has completed it in its own transaction was not stale: it is settled, as it should
        be."""
        unanswered = self._writer.answered(settlements)
        refused: list[Report] = []
        written: set[TaskKey] = set()
        if len(settled) == len(reports):
            return refused, written
        accepted, kept = {s.key for s in settled}, self._writer.unsettled
        presumed = []
        for report, settlement in zip(reports, settlements, strict=True):
            key, outcome = settlement.key, report.outcome
            if key in accepted:
                continue
            if outcome is not None and outcome.completed_by_handler:
                done = msgspec.structs.replace(
                    settlement, verdict=COMPLETE, outcome=OutcomeKind.SUCCEEDED
                )
                presumed.append((report.delivery, done))
                continue
            refused.append(report)
            if key not in kept and (key, settlement.fence) in unanswered:
                presumed.append((report.delivery, settlement))
                written.add(key)
        self._follow_up.presumed(presumed)
        return refused, written

    async def settle_again(self) -> int:
        """Settle what could not be; gives how many were."""
        if not self._writer.unsettled and not self._failed:
            return 0
        done = await self._record_again(set(self._troubles.aside(CHORE)))
        for key in self._writer.due_again():
            if key not in self._unsettled:
                continue  # the rest of its batch is still being written
            bare = self._writer.unsettled[key]
            settled = await self._writer.write_again(key)
            if settled is not None:
                report = self._unsettled.pop(key)
                self._follow_up.settled([report.delivery], [bare], settled)
                self._pipe.acknowledge([report], accepted=True)
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
                self._troubles.note(CHORE, error, about, REMEDY)
                continue
            self._troubles.over(CHORE, about)
            done += 1
        return done
