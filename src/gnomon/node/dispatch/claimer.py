"""Claims entries by key, in one statement for many, and sends them to the slots."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from gnomon.chores import Troubles, about_task, isolated
from gnomon.model.errors import StoreError, Unstorable
from gnomon.model.tasks.task import TaskKey
from gnomon.node.buried import tell_buried
from gnomon.node.claims import Claims
from gnomon.node.dispatch.claim_store import ClaimStore
from gnomon.node.dispatch.requeue import Requeue
from gnomon.node.dispatch.started import started_event
from gnomon.observe.events import Observer, RunSkipped
from gnomon.observe.node_events import ClaimAnswered
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.port import Pipe
from gnomon.store.ports.dispatch import Claim, Entry, TakenChildren

CHORE = "dispatch"
_REMEDY = "it waits meanwhile: look at it (`gnomon tasks show`), change or cancel it"
BURIED_REMEDY = "it is a dead letter: look at it (`gnomon dead list`), mend its row, and retry it"

_R = TypeVar("_R")


class ClaimResult(msgspec.Struct, frozen=True):
    """How many were claimed; whether what is due must be read anew."""

    claimed: int = 0
    started_over: bool = False


class Claimer:
    """Where the store refuses a batch it is claimed in parts, so that the one entry that is
    refused is left alone."""

    def __init__(
        self,
        store: ClaimStore,
        claims: Claims,
        requeue: Requeue,
        pipe: Pipe,
        troubles: Troubles,
        emit: Observer,
    ) -> None:
        self._store = store
        self.claims = claims
        self.requeue = requeue
        self._pipe = pipe
        self._troubles = troubles
        self._emit = emit

    def may_claim(self) -> bool:
        return not self.claims.held.stopped and self._store.is_trusted()

    async def claim(self, entries: list[Entry]) -> ClaimResult:
        """First those that may simply be claimed, then runs of cron jobs whose jobs are asked."""
        asking: list[Entry] = []

        async def one_part(part: Sequence[Entry]) -> ClaimResult:
            return await self._claim_part(part, asking)

        try:
            results = await self._in_parts(entries, one_part)
        except BaseException:
            self._put_back(asking)
            raise
        claimed = sum(result.claimed for result in results)
        if asking:
            claimed += sum(await self._in_parts(asking, self._ask_part))
        return ClaimResult(claimed, started_over=any(result.started_over for result in results))

    async def _in_parts(
        self, entries: list[Entry], work: Callable[[Sequence[Entry]], Awaitable[_R]]
    ) -> list[_R]:
        done: list[Entry] = []

        async def one_part(part: Sequence[Entry]) -> list[_R]:
            result = await work(part)
            done.extend(part)
            return [result]

        async def blame(entry: Entry, error: StoreError) -> list[_R]:
            done.append(entry)
            self._set_aside(entry, error)
            return []

        try:
            return await isolated(entries, one_part, blame)
        except BaseException:
            known = {id(e) for e in done}
            self._put_back([e for e in entries if id(e) not in known])
            raise

    def _put_back(self, entries: Sequence[Entry]) -> None:
        """The claim failed, and may or may not have been made."""
        self.claims.unanswered(entries, self.requeue.own(entries))

    def _set_aside(self, entry: Entry, error: StoreError) -> None:
        """One that cannot be claimed: it was surely not. It is tried again after a while."""
        pause = self._troubles.note(CHORE, error, about_task(entry.key), _REMEDY)
        self.claims.missed([entry])
        self.requeue.later(entry, pause)

    async def _claim_part(self, entries: Sequence[Entry], asking: list[Entry]) -> ClaimResult:
        """Runs of cron jobs whose jobs must be asked go to `asking`."""
        claim = await self._store.claim(entries)
        took = self._store.took
        claimed = self._send(entries, claim)
        if len(claimed) == len(entries):
            self._emit(ClaimAnswered(len(claimed), 0, took))
            return ClaimResult(len(claimed))
        left = [e for e in entries if e.key not in claimed]
        left = await self.bury(left, claim)
        asking += [e for e in left if e.recurring]
        missed = [e for e in left if not e.recurring]
        self.claims.missed(missed)
        self._emit(ClaimAnswered(len(claimed), len(missed), took))
        return ClaimResult(len(claimed), started_over=self.requeue.look_again(missed))

    async def _ask_part(self, entries: Sequence[Entry]) -> int:
        answer = await self._store.claim_runs(entries)
        took = self._store.took
        claimed = self._send(entries, answer.claim)
        entries = await self.bury(list(entries), answer.claim)
        self.claims.missed([e for e in entries if e.key not in claimed])
        for reason in answer.skipped:
            self._emit(RunSkipped(reason))
        self.requeue.forget(answer.settled)
        self.requeue.hinted(answer.started_queued)
        settled = claimed | set(answer.settled)
        missed = [e for e in entries if e.key not in settled]
        self.requeue.look_again(missed)
        self._emit(ClaimAnswered(len(claimed), len(missed), took))
        return len(claimed)

    def send_taken(self, taken: TakenChildren, took: float) -> None:
        """Send on their way tasks that a settlement has claimed, within so many seconds. One whose
        row cannot be read is released, as what nobody here runs, and buried when it is next
        claimed."""
        deliveries = self.claims.claimed_unasked(taken.entries, taken.claim.deliveries)
        self._send_all(taken.entries, deliveries, taken.claim.now)
        self._emit(ClaimAnswered(len(deliveries), 0, took))

    def _send(self, entries: Sequence[Entry], claim: Claim) -> set[TaskKey]:
        """Send what was claimed on its way; gives which."""
        if not claim.deliveries:
            return set()
        deliveries = self.claims.claimed(entries, claim.deliveries)
        return self._send_all(entries, deliveries, claim.now)

    def _send_all(
        self, entries: Sequence[Entry], deliveries: Sequence[Delivery], now: datetime | None
    ) -> set[TaskKey]:
        claimed = {d.key for d in deliveries}
        self.requeue.claimed(claimed)
        self._troubles.over_all(CHORE, map(about_task, claimed))
        self._pipe.send(deliveries)
        self._emit(started_event(entries, deliveries, now))
        return claimed

    async def bury(self, left: list[Entry], claim: Claim) -> list[Entry]:
        """Make dead letters of those whose rows cannot be read; gives the others. One that cannot
        even be that is released later, as what nobody here runs."""
        if not claim.unreadable:
            return left
        buried = {burial.key for burial in claim.unreadable}
        self.claims.missed([e for e in left if e.key in buried])
        self.requeue.forget(buried)
        for burial in claim.unreadable:
            error: StoreError = Unstorable(burial.reason)
            remedy = BURIED_REMEDY
            try:
                tell_buried(self._emit, await self._store.bury(burial))
            except StoreError as refused:
                error, remedy = refused, _REMEDY
            self._troubles.note(CHORE, error, about_task(burial.key), remedy)
        return [e for e in left if e.key not in buried]
