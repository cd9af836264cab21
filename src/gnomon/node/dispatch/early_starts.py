"""Claims many tasks that are due at one instant ahead of it, and starts them at it.

A claim of a thousand takes longer than a thousand no-ops. So where nothing is due and many tasks
will be at once, they are claimed up to `EARLY_SECONDS` before, and held. Where there are more than
the slots have room for, and they are so short that all of them can start within a moment, the rest
is claimed as well, somewhat further ahead: a surplus, which goes back if it does not start then.
Until their time has come by the store's clock they wait, for users as well: who changes or cancels
one takes it back from this node, which asks for that right before it starts them.
"""

import asyncio
from collections.abc import Callable, Sequence

from gnomon.chores import Service, Troubles, whenever
from gnomon.clock import Clock
from gnomon.model.errors import StoreError
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.herd_reach import EARLY_SECONDS, MOST_EARLY_SECONDS
from gnomon.node.dispatch.claim_store import ClaimStore
from gnomon.node.dispatch.claimer import Claimer
from gnomon.node.dispatch.started import started_event
from gnomon.node.signals import Signals
from gnomon.observe.events import Observer, TasksStarted
from gnomon.observe.node_events import ClaimAnswered
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.port import SlotPipe
from gnomon.store.ports.dispatch import Claim, Entry

CHORE = "start-held"
_PART = 250  # tasks of one claim: what becomes due meanwhile waits for it
_SURPLUS_PART = 500  # the same, where there are thousands
_BEGUN_PART = 500  # tasks that are asked for by key at once
_TIMER = 0.001  # seconds by which a timer may be late: the last of them are slept in small pieces
_SHORTEST_SLEEP = 0.0002
_LOOK_SECONDS = 0.005  # between looks at what is offered
_STALL_SECONDS = 0.025  # without a start: the slots are busy, and others may have some
_STALL_LOOKS = 3  # in that time: a loop that was held up says nothing of the slots
_LONGEST_OFFER = 0.3  # seconds


class EarlyStarts:
    """The pipe holds what was claimed, until it is told to start; here are only the entries."""

    def __init__(
        self,
        store: ClaimStore,
        claimer: Claimer,
        pipe: SlotPipe,
        clock: Clock,
        troubles: Troubles,
        emit: Observer,
    ) -> None:
        self._store = store
        self._claims = claimer.claims
        self._claimer = claimer
        self._requeue = claimer.requeue
        self._pipe = pipe
        self._clock = clock
        self._troubles = troubles
        self._emit = emit
        self._recalls = 0  # when the first of what is held was not claimed yet
        self._entries: dict[TaskKey, Entry] = {}  # of what is held or offered
        self._started: list[TasksStarted] = []  # that nobody was told of yet
        self._offered_at = 0.0  # the first of it, by the monotonic clock
        self._waiting = 0  # for slots, when something was last seen to start
        self._began_at, self._looks = 0.0, 0  # when that was, and the looks since then
        self.holds = asyncio.Event()  # more than before
        self._offers = asyncio.Event()  # something, where nothing was

    def services(self, signals: Signals) -> list[Service]:
        async def claim() -> None:
            while await self.claim(signals.due.set):
                pass

        async def start() -> None:
            held = self._pipe.next_start()
            await self.start()
            if self._pipe.next_start() != held:
                signals.due.set()  # so may be what was taken back

        async def until_due() -> None:
            await self._clock.wait(self.holds, self._until_next())
            self.holds.clear()

        async def follow() -> None:
            self.follow()

        async def until_look() -> None:
            seconds = _LOOK_SECONDS if self._pipe.offered() else None
            await self._clock.wait(self._offers, seconds)
            self._offers.clear()

        return [
            whenever("claim-early", claim, self._clock, signals.early, None, yields=True),
            Service(CHORE, start, until_due),
            Service("follow-offered", follow, until_look),  # whatever the store keeps waiting
        ]

    async def claim(self, on_returned: Callable[[], None] = lambda: None) -> int:
        """Claim what will be due at the next crowded instant, as far as there is room; gives how
        many were. `on_returned`: what was chosen and not claimed may be due by now."""
        if not self._claimer.may_claim():
            return 0
        room, surplus = self._pipe.early_room(), self._pipe.surplus_room()
        chosen = self._claims.take_early(room, surplus)
        own, others = self._requeue.still_own(chosen)
        self._claims.missed(others)
        if not own:
            return 0
        is_small = len(own) <= max(room, 0) and not self._is_far(own)
        claimed, size = 0, _PART if is_small else _SURPLUS_PART
        try:
            if self._pipe.next_start() is None and not self._pipe.offered():
                self._entries.clear()
                self._recalls = (await self._store.recalls()).number
            while (part := own[: self._most(own, size)]) and self._is_still_early(part):
                far = self._is_far(part)
                async with self._claims.held.claiming:
                    claim = await self._store.claim(part, self._ahead(part))
                    own = own[len(part) :]
                    held = await self._hold(part, claim, far=far)
                claimed += held
                if not held:  # most likely those behind them cannot be claimed early, either
                    self._claims.unclaimable(part[0].due_at)
                    self._claims.too_early(own)
                    own = []
        except BaseException:
            self._claims.too_early(own)
            raise
        else:
            self._left(own)
        finally:
            on_returned()
        return claimed

    def _most(self, entries: Sequence[Entry], part: int) -> int:
        """How many may be claimed next: what they take up is known only afterwards."""
        room = 0 if not entries or self._is_far(entries) else max(0, self._pipe.early_room())
        return min(part, room + self._pipe.surplus_room())

    def _is_far(self, entries: Sequence[Entry]) -> bool:
        """Whether they are so far ahead that they must take up no room."""
        return self._seconds_until(entries[:1]) > EARLY_SECONDS

    def _is_still_early(self, entries: Sequence[Entry]) -> bool:
        """Whether nothing else comes first, and they are not due, nor far from it: the agenda does
        not see that a clock was set back."""
        due_at = entries[0].due_at
        return (
            self._claimer.may_claim()
            and not self._claims.is_disturbed(due_at)
            and self._clock.now() < due_at
            and self._seconds_until(entries) <= MOST_EARLY_SECONDS
        )

    def _seconds_until(self, entries: Sequence[Entry]) -> float:
        """Until the last of them is due, by a clock that is never ahead."""
        latest = max([e.due_at for e in entries])
        return (latest - self._clock.now()).total_seconds()

    def _ahead(self, entries: Sequence[Entry]) -> float:
        """Seconds ahead of their time that they may be claimed."""
        return min(max(EARLY_SECONDS, self._seconds_until(entries)), MOST_EARLY_SECONDS)

    def _left(self, entries: Sequence[Entry]) -> None:
        """These were not asked for. Where there was no room for those that are far ahead, there
        may be later."""
        seconds = self._seconds_until(entries[:1]) if entries else 0.0
        is_far = EARLY_SECONDS < seconds <= MOST_EARLY_SECONDS
        if entries and (is_far or self._claims.is_disturbed(entries[0].due_at)):
            self._claims.not_yet(entries)
        else:
            self._claims.too_early(entries)

    async def _hold(self, entries: Sequence[Entry], claim: Claim, *, far: bool) -> int:
        took = self._store.took
        deliveries = self._claims.claimed(entries, claim.deliveries)
        claimed = {d.key for d in deliveries}
        self._requeue.claimed(claimed)
        self._entries |= {e.key: e for e in entries if e.key in claimed}
        self._pipe.hold(deliveries, surplus=far)
        self.holds.set()  # their time may have come while they were claimed
        missed = await self._claimer.bury([e for e in entries if e.key not in claimed], claim)
        self._claims.too_early(missed)
        self._emit(ClaimAnswered(len(claimed), 0, took))  # others were not due: nobody missed them
        return len(claimed)

    def _until_next(self) -> float | None:
        """Seconds until something held may start, by a clock that is never ahead."""
        at = self._pipe.next_start()
        if at is None:
            return None
        left = at - self._clock.seconds()
        return left - _TIMER if left > 1.5 * _TIMER else _SHORTEST_SLEEP

    async def start(self) -> int:
        """Start what is held, its time has come for, and nobody has taken back; gives how
        many, with those that are offered."""
        if not self._pipe.startable(self._clock.seconds()):
            return 0
        try:
            started = await self._start()
            await self._clock.sleep(0)  # slots come first
        finally:
            self._tell_started()
        return started

    async def _start(self) -> int:
        started = 0
        try:
            startable, recalled = await self._troubles.noting(CHORE, self._ask())
            if not recalled:
                return self._hand_over(startable)
            for part in _parts(startable, _BEGUN_PART):
                standing = await self._troubles.noting(CHORE, self._store.begin(part))
                started += self._hand_over([d for d in part if (d.key, d.fence) in standing])
                self._refuse([d for d in part if (d.key, d.fence) not in standing])
        except StoreError:  # no reason to pause: they wait again once that can be written
            self._give_back(self._pipe.startable(self._clock.seconds()))
        return started

    async def _ask(self) -> tuple[list[Delivery], bool]:
        """What has come to its time by the store's clock, and whether anything was taken back."""
        recalls = await self._store.recalls()
        return self._pipe.startable(recalls.now), recalls.number != self._recalls

    def _hand_over(self, consent: Sequence[Delivery]) -> int:
        """Start those that there is consent for. Gives how many start, or are offered."""
        before = self._pipe.offered()
        started = self._pipe.start(consent)
        offered = self._pipe.offered() - before
        if offered and not before:
            self._offered_at = self._clock.monotonic()
            self._progressed()
            self._offers.set()
        self._started.append(self._event(started))
        return len(started) + offered

    def _refuse(self, deliveries: Sequence[Delivery]) -> None:
        """What was taken back waits, unless it has ended: nobody else may have told this node."""
        refused = [self._entries.get(d.key) for d in self._give_back(deliveries)]
        self._requeue.hinted([entry for entry in refused if entry is not None])

    def follow(self) -> int:
        """Tell of what slots have taken of the surplus, and give back what they do not get to;
        gives how much of that."""
        if not self._pipe.offered():
            return 0
        if begun := self._pipe.begun():
            self._emit(self._event(begun))
        waiting = self._pipe.waiting()
        if begun or waiting < self._waiting:
            self._progressed()
        self._waiting = waiting  # more have come, perhaps: that is no start
        self._looks += 1
        now = self._clock.monotonic()
        stalled = self._looks > _STALL_LOOKS and now - self._began_at >= _STALL_SECONDS
        if not stalled and now - self._offered_at < _LONGEST_OFFER:
            return 0
        unstarted = self._pipe.unstarted()
        for delivery in unstarted:
            self._entries.pop(delivery.key, None)
            self._pipe.report(Report(delivery))
        return len(unstarted)

    def _progressed(self) -> None:
        self._waiting = self._pipe.waiting()
        self._began_at, self._looks = self._clock.monotonic(), 0

    def _event(self, started: Sequence[Delivery]) -> TasksStarted:
        known = [self._entries.pop(d.key, None) for d in started]
        entries = [entry for entry in known if entry is not None]
        return started_event(entries, started, self._clock.now())

    def _tell_started(self) -> None:
        events, self._started = self._started, []
        for event in events:
            self._emit(event)

    def _give_back(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Those of them that are still held are not started here; gives which."""
        given = self._pipe.take_back(deliveries)
        for delivery in given:
            self._pipe.report(Report(delivery))
        return given


def _parts(deliveries: Sequence[Delivery], size: int) -> list[Sequence[Delivery]]:
    return [deliveries[first : first + size] for first in range(0, len(deliveries), size)]
