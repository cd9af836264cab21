"""Claims many tasks that are due at one instant ahead of it, and starts them at it.

A claim of a thousand takes longer than a thousand no-ops. So where nothing is due and many tasks
will be at once, they are claimed up to `EARLY_SECONDS` before, and held. Until their time has come
by the store's clock they wait, for users as well: who changes or cancels one takes it back from
this node, which asks for that right before it starts them.
"""

import asyncio
from collections.abc import Callable, Sequence

from gnomon.chores import Service, Troubles, whenever
from gnomon.clock import Clock
from gnomon.model.errors import StoreError
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import EARLY_SECONDS
from gnomon.node.dispatch.claim_store import ClaimStore
from gnomon.node.dispatch.claimer import Claimer
from gnomon.node.dispatch.started import started_event
from gnomon.node.signals import Signals
from gnomon.observe.events import Observer
from gnomon.observe.node_events import ClaimAnswered
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.port import SlotPipe
from gnomon.store.ports.dispatch import Claim, Entry

CHORE = "start-held"
_PART = 250  # tasks of one claim: what becomes due meanwhile waits for it
_TIMER = 0.001  # seconds by which a timer may be late: the last of them are slept in small pieces
_SHORTEST_SLEEP = 0.0002


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
        self._entries: dict[TaskKey, Entry] = {}  # of what is held
        self.holds = asyncio.Event()  # more than before

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

        return [
            whenever("claim-early", claim, self._clock, signals.early, None, yields=True),
            Service(CHORE, start, until_due),
        ]

    async def claim(self, on_returned: Callable[[], None] = lambda: None) -> int:
        """Claim what will be due at the next crowded instant, as far as there is room; gives how
        many were. `on_returned`: what was chosen and not claimed may be due by now."""
        if not self._claimer.may_claim():
            return 0
        chosen = self._claims.take_early(self._pipe.early_room())
        own, others = self._requeue.still_own(chosen)
        self._claims.missed(others)
        if not own:
            return 0
        claimed = 0
        try:
            if self._pipe.next_start() is None:
                self._entries.clear()
                self._recalls = (await self._store.recalls()).number
            while own and self._is_still_early(own):
                async with self._claims.held.claiming:
                    claim = await self._store.claim(own[:_PART], EARLY_SECONDS)
                    part, own = own[:_PART], own[_PART:]
                    held = await self._hold(part, claim)
                claimed += held
                if not held:  # most likely those behind them cannot be claimed early, either
                    break
        finally:
            self._claims.too_early(own)
            on_returned()
        return claimed

    def _is_still_early(self, entries: Sequence[Entry]) -> bool:
        """Whether nothing else is due, nor are they."""
        due_at = entries[0].due_at
        return (
            self._claimer.may_claim() and not self._claims.awaits() and self._clock.now() < due_at
        )

    async def _hold(self, entries: Sequence[Entry], claim: Claim) -> int:
        took = self._store.took
        deliveries = self._claims.claimed(entries, claim.deliveries)
        claimed = {d.key for d in deliveries}
        self._requeue.claimed(claimed)
        self._entries |= {e.key: e for e in entries if e.key in claimed}
        self._pipe.hold(deliveries)
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
        many."""
        if not self._pipe.startable(self._clock.seconds()):
            return 0
        try:
            startable, consent = await self._troubles.noting(CHORE, self._ask())
        except StoreError:  # no reason to pause: they wait again once that can be written
            self._give_back(self._pipe.startable(self._clock.seconds()))
            return 0
        started = self._pipe.start(consent)
        known = [self._entries.pop(d.key, None) for d in started]
        entries = [entry for entry in known if entry is not None]
        self._emit(started_event(entries, started, self._clock.now()))
        # What was taken back waits, unless it has ended: nobody else may have told this node.
        refused = [self._entries.get(d.key) for d in self._give_back(startable)]
        self._requeue.hinted([entry for entry in refused if entry is not None])
        return len(started)

    async def _ask(self) -> tuple[list[Delivery], list[Delivery]]:
        """What has come to its time by the store's clock, and those of it that may start."""
        recalls = await self._store.recalls()
        startable = self._pipe.startable(recalls.now)
        if not startable or recalls.number == self._recalls:
            return startable, startable
        begun = await self._store.begin(startable)
        return startable, [d for d in startable if d.key in begun]

    def _give_back(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Those of them that are still held are not started here; gives which."""
        given = self._pipe.take_back(deliveries)
        for delivery in given:
            self._pipe.report(Report(delivery))
        return given
