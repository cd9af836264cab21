"""Claims ready tasks by key, in batches no larger than the workers can take."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

import msgspec

from gnomon.chores import Troubles, about_task, isolated
from gnomon.clock import Clock
from gnomon.model.errors import StoreError, Unstorable
from gnomon.model.quarantine import can_kill, is_suspect
from gnomon.model.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.dispatch.preemption import Preemption
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.start_checks import StartChecks
from gnomon.observe.events import Observer, RunSkipped, RunStarted, nobody
from gnomon.pipe.envelope import NEVER, Delivery, Report
from gnomon.pipe.port import Pipe
from gnomon.store.ports.dispatch import Claim, DispatchStore, Entry
from gnomon.store.ports.planning import PlanningStore

# A key that was not claimed may be locked for a moment, or not due by the database's clock. After
# these looks it is dropped; if it still waits, a repair scan brings it back.
_LOOK_AGAIN = (timedelta(milliseconds=5), timedelta(milliseconds=100), timedelta(seconds=1))
# So many misses in a row say that others have been stealing. What they took is best dropped at
# once: with two slots, a look at each of thousands takes minutes.
_MISSES = 100
_START_OVER_SECONDS = 1.0  # at least between two; rows may also be locked for long

CHORE = "dispatch"
_REMEDY = "it waits meanwhile: look at it (`gnomon tasks show`), change or cancel it"
BURIED_REMEDY = "it is a dead letter: look at it (`gnomon dead list`), mend its row, and retry it"

_R = TypeVar("_R")


class DispatchResult(msgspec.Struct, frozen=True):
    """What a round did."""

    chosen: int = 0
    claimed: int = 0
    started_over: bool = False  # what is due must be read anew


class Dispatcher:
    """Chooses, claims, sends."""

    def __init__(
        self,
        store: DispatchStore,
        planning: PlanningStore,
        agenda: Agenda,
        scanner: Scanner,
        pipe: Pipe,
        lease: Lease,
        clock: Clock,
        batch: int,
        emit: Observer = nobody,
        checks: StartChecks | None = None,
        preemption: Preemption | None = None,
        troubles: Troubles | None = None,
        *,
        held: HeldTasks,
    ) -> None:
        self._troubles = Troubles(clock, emit) if troubles is None else troubles
        self._store = store
        self._planning = planning
        self._agenda = agenda
        self._scanner = scanner
        self._pipe = pipe
        self._lease = lease
        self._clock = clock
        self._batch = batch
        self._emit = emit
        self._checks = checks or StartChecks()
        self._preemption = preemption
        self._looks: dict[TaskKey, int] = {}
        self._missed = 0  # since the last claim
        self._started_over_at = float("-inf")
        self.held = held

    async def run_once(self) -> DispatchResult:
        """One claim of what is ready, as far as there is room and the lease is trusted."""
        if not self._may_claim():
            return DispatchResult()
        async with self.held.claiming:
            entries = self._choose()
            result = await self._claim(entries) if entries else DispatchResult()
        if self._preemption is not None:
            self._preemption.run_once()
        return result

    def idle(self) -> int:
        """Slots that nothing on the agenda waits for."""
        if self._agenda.awaits(self.held.suspects) or not self._may_claim():
            return 0
        return min(self._pipe.free(), self._batch)

    async def steal(self, entries: Sequence[Entry]) -> DispatchResult:
        """Claim due tasks of shards that others serve, as far as slots are still idle. Those that
        were not claimed are left to whoever has them."""
        async with self.held.claiming:
            idle = self.idle()
            chosen: list[Entry] = []
            for entry in entries:
                if len(chosen) < idle and self._agenda.steal(
                    entry, self.held.suspects, self._checks.admit
                ):
                    chosen.append(entry)
            if not chosen:
                return DispatchResult()
            return await self._claim(self._agenda.once(chosen))

    def _may_claim(self) -> bool:
        return not self.held.stopped and self._lease.is_trusted(self._clock.monotonic())

    def released(self, reports: Iterable[Report]) -> None:
        """These are settled: the node holds them no longer. Another claim of the same task, made
        after this one was taken over, is still held."""
        held, ended, ends = self.held.fences, [], []
        for report in reports:
            delivery = report.delivery
            key = delivery.key
            if held.get(key) == delivery.fence:
                del held[key]
                ended.append(report)
                ends.append((key.tenant_id, delivery.lane, report.seconds))
                self.held.suspects.give_back(key)
        self._agenda.ended_all(ends)
        self._checks.ended(ended)

    def _choose(self) -> list[Entry]:
        room = min(self._pipe.room(), self._batch)
        chosen = self._agenda.take(room, self.held.suspects, self._checks.admit)
        chosen = self._agenda.once(chosen + self._urgent(len(chosen)))
        own = self._scanner.still_own(chosen)
        if len(own) < len(chosen):
            kept = {e.key for e in own}
            others = [e for e in chosen if e.key not in kept]
            self._forget([e.key for e in others])
            self._unclaimed(others)
        return own

    def _urgent(self, chosen: int) -> list[Entry]:
        """What is CRITICAL, for the slots that are kept for it, and for those that running tasks
        can be made to leave."""
        room = min(self._pipe.urgent_room(), self._batch) - chosen
        taken = self._take_urgent(room)
        if len(taken) < room or self._preemption is None:
            return taken  # there is no more of it
        more = min(self._preemption.room(), self._batch) - chosen - len(taken)
        return taken + self._take_urgent(more, evicting=True)

    def _take_urgent(self, most: int, *, evicting: bool = False) -> list[Entry]:
        if most <= 0:
            return []
        return self._agenda.take_urgent(most, self._checks.admit, evicting=evicting)

    def _own(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that this node serves; what others serve has no place on the agenda."""
        own = self._scanner.own_of(entries)
        if len(own) < len(entries):
            kept = {e.key for e in own}
            self._forget([e.key for e in entries if e.key not in kept])
        return own

    def _unclaimed(self, entries: Collection[Entry]) -> None:
        """These were chosen, and surely not claimed. One that is held was so before: its hint was
        stale, and what it runs with stays its own."""
        self._unused(entries)
        self._checks.missed([e.key for e in entries if e.key not in self.held.fences])

    def _unused(self, entries: Iterable[Entry]) -> None:
        """The slots and places that were held for these are free again."""
        for entry in entries:
            self._agenda.ended_all([(entry.key.tenant_id, entry.lane, None)])
            if entry.key not in self.held.fences:
                self.held.suspects.give_back(entry.key)

    def _put_back(self, entries: Sequence[Entry]) -> None:
        """The claim failed, and may or may not have been made: so what was admitted keeps what it
        took for that, and takes nothing when it is admitted again."""
        own = self._own(entries)
        kept = {e.key for e in own}
        self._unused(e for e in entries if e.key not in kept)
        self._agenda.put_back(own)
        unheld = [e.key for e in entries if e.key not in self.held.fences]
        for key in unheld:
            self.held.suspects.give_back(key)
        self._checks.unanswered(unheld)

    async def _claim(self, entries: list[Entry]) -> DispatchResult:
        """Claim them; where the store refuses, in parts, so that the one that it refuses is left
        alone."""
        asking: list[Entry] = []

        async def one_part(part: Sequence[Entry]) -> DispatchResult:
            return await self._claim_part(part, asking)

        try:
            results = await self._in_parts(entries, one_part)
        except BaseException:
            self._put_back(asking)
            raise
        claimed = sum(result.claimed for result in results)
        if asking:
            claimed += len(await self._ask(asking))
        over = any(result.started_over for result in results)
        return DispatchResult(len(entries), claimed, started_over=over)

    async def _in_parts(
        self, entries: list[Entry], work: Callable[[Sequence[Entry]], Awaitable[_R]]
    ) -> list[_R]:
        waiting = {id(e): e for e in entries}  # hashed faster than keys

        async def one_part(part: Sequence[Entry]) -> list[_R]:
            result = await work(part)
            for entry in part:
                del waiting[id(entry)]
            return [result]

        async def blame(entry: Entry, error: StoreError) -> list[_R]:
            del waiting[id(entry)]
            self._set_aside(entry, error)
            return []

        try:
            return await isolated(entries, one_part, blame)
        except BaseException:
            self._put_back(list(waiting.values()))
            raise

    def _set_aside(self, entry: Entry, error: StoreError) -> None:
        """One that cannot be claimed: it was surely not. It is tried again after a while."""
        pause = self._troubles.note(CHORE, error, about_task(entry.key), _REMEDY)
        self._unclaimed([entry])
        if self._agenda.knows(entry.key):
            self._agenda.again(entry, self._clock.now() + timedelta(seconds=pause))

    async def _claim_part(self, entries: Sequence[Entry], asking: list[Entry]) -> DispatchResult:
        """Claim what may simply be claimed; runs of cron jobs whose jobs must be asked go to
        `asking`."""
        asked_at = self._clock.monotonic()
        claim = await self._store.claim(
            self._lease.incarnation, [e.key for e in entries], [e.flow for e in entries]
        )
        claimed = self._take(entries, claim, asked_at)
        self._tell_started(entries, claim)
        if len(claimed) == len(entries):
            return DispatchResult(len(entries), len(claimed))
        left = [e for e in entries if e.key not in claimed]
        left = await self._bury(left, claim)
        asking += [e for e in left if e.recurring]
        missed = [e for e in left if not e.recurring]
        self._unclaimed(missed)
        over = self._look_again(missed)
        return DispatchResult(len(entries), len(claimed), started_over=over)

    async def _ask(self, entries: list[Entry]) -> set[TaskKey]:
        """Runs of cron jobs that were not simply claimed: ask their jobs whether they may start."""
        parts = await self._in_parts(entries, self._ask_part)
        return set().union(*parts)

    async def _bury(self, left: list[Entry], claim: Claim) -> list[Entry]:
        """Make dead letters of those whose rows cannot be read; gives the others. One that cannot
        even be that is given back later, as what nobody here runs."""
        if not claim.unreadable:
            return left
        buried = {burial.key for burial in claim.unreadable}
        self._unclaimed([e for e in left if e.key in buried])
        self._forget(buried)
        for burial in claim.unreadable:
            error: StoreError = Unstorable(burial.reason)
            remedy = BURIED_REMEDY
            try:
                await self._store.bury(self._lease.incarnation, [burial])
            except StoreError as refused:
                error, remedy = refused, _REMEDY
            self._troubles.note(CHORE, error, about_task(burial.key), remedy)
        return [e for e in left if e.key not in buried]

    async def _ask_part(self, entries: Sequence[Entry]) -> set[TaskKey]:
        asked_at = self._clock.monotonic()
        answer = await self._planning.claim_runs(
            self._lease.incarnation, [e.key for e in entries], [e.flow for e in entries]
        )
        claimed = self._take(entries, answer.claim, asked_at)
        entries = await self._bury(list(entries), answer.claim)
        self._unclaimed([e for e in entries if e.key not in claimed])
        self._tell_started(entries, answer.claim)
        for reason in answer.skipped:
            self._emit(RunSkipped(reason))
        self._forget(answer.settled)
        self._scanner.hinted(answer.started_queued)
        settled = claimed | set(answer.settled)
        self._look_again([e for e in entries if e.key not in settled])
        return claimed

    def _take(self, entries: Sequence[Entry], claim: Claim, asked_at: float) -> set[TaskKey]:
        """Send what was claimed on its way."""
        if claim.now is not None:
            self._clock.observe(claim.now, asked_at)
        if claim.deliveries:
            self._missed = 0
        deliveries = self._startable(claim.deliveries)
        hinted = {e.key: e.lane for e in entries}
        held = self.held.fences
        for delivery in deliveries:
            key, lane = delivery.key, delivery.lane
            if hinted[key] is not lane:  # its priority was changed
                self._agenda.moved(key.tenant_id, hinted[key], lane)
            if key in held:  # taken over from this very node, which goes on with it
                self._agenda.ended_all([(key.tenant_id, lane, None)])
            held[key] = delivery.fence
        claimed = {d.key for d in deliveries}
        self._forget(claimed)
        self._troubles.over_all(CHORE, map(about_task, claimed))
        self._pipe.send(deliveries)
        return claimed

    def _tell_started(self, entries: Sequence[Entry], claim: Claim) -> None:
        """How late the first tries of cron jobs' runs come."""
        due = {e.key: e.due_at for e in entries if e.recurring}
        if not due or claim.now is None:
            return
        for delivery in claim.deliveries:
            if delivery.attempt == 1 and not delivery.expired and delivery.key in due:
                delay = claim.now - due[delivery.key]
                self._emit(RunStarted(delay.total_seconds()))

    def _forget(self, keys: Collection[TaskKey]) -> None:
        self._agenda.forget(keys)
        if self._looks:
            for key in keys:
                self._looks.pop(key, None)

    def _startable(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """The same, with those too late to start that must not: they will be given back. What the
        row says may differ from the hint that was admitted; and a hint does not tell suspects, so
        more of them may have been claimed than there is room for."""
        refused, places = self._checks.refused(deliveries), self.held.suspects
        for delivery in deliveries:
            key, losses = delivery.key, delivery.losses
            if losses and is_suspect(losses) and can_kill(delivery.target):
                if key in places.held or places.allows(key, losses):
                    places.take(key, losses)
                else:
                    refused.add(key)
            elif places.held:
                places.give_back(key)
        if not refused:
            return deliveries
        return [
            msgspec.structs.replace(d, start_by=NEVER) if d.key in refused else d
            for d in deliveries
        ]

    def _look_again(self, entries: Sequence[Entry]) -> bool:
        """Look at them soon, or, where there were too many of them, start over."""
        if not entries:
            return False
        own = [e for e in self._own(entries) if self._agenda.knows(e.key)]
        self._missed += len(own)
        if self._missed >= _MISSES and self._start_over():
            self._forget([e.key for e in own])
            return True
        now = self._clock.now()
        for entry in own:
            looks = self._looks.pop(entry.key, 0)
            if looks == len(_LOOK_AGAIN):
                self._agenda.forget([entry.key])
            else:
                self._looks[entry.key] = looks + 1
                self._agenda.again(entry, now + _LOOK_AGAIN[looks])
        return False

    def _start_over(self) -> bool:
        now = self._clock.monotonic()
        if now - self._started_over_at < _START_OVER_SECONDS:
            return False
        self._started_over_at = now
        self._missed = 0
        self._looks.clear()
        self._scanner.start_over()
        return True
