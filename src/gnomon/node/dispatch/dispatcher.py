"""Chooses what to claim, in batches no larger than the slots can take."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from gnomon.breakers.ramp import Ramp
from gnomon.model.errors import StoreExhausted
from gnomon.node.claims import Claims
from gnomon.node.dispatch.claimer import Claimer
from gnomon.node.dispatch.requeue import Requeue
from gnomon.pipe.port import Pipe
from gnomon.store.ports.dispatch import Entry


class Preempting(Protocol):
    """Makes running tasks give way to CRITICAL ones."""

    def room(self) -> int:
        """CRITICAL tasks that may be claimed beyond the room of the pipe."""

    def run_once(self) -> int:
        """Have as many tasks end as are needed now; gives how many."""


class DispatchResult(msgspec.Struct, frozen=True):
    """How many entries a round chose, and how many of them were claimed."""

    chosen: int = 0
    claimed: int = 0
    started_over: bool = False  # what is due must be read anew


class Dispatcher:
    """Fills the slots from the agenda, or with what other nodes do not get to."""

    def __init__(
        self,
        claimer: Claimer,
        claims: Claims,
        requeue: Requeue,
        pipe: Pipe,
        preemption: Preempting | None,
        batch: int,
    ) -> None:
        self._claimer = claimer
        self._claims = claims
        self._requeue = requeue
        self._pipe = pipe
        self._preemption = preemption
        self._batch = batch
        self._ramp = Ramp()
        self._held = claims.held

    async def run_once(self) -> DispatchResult:
        """One claim of what is ready, as far as there is room and the lease is trusted."""
        if not self._claimer.may_claim():
            return DispatchResult()
        async with self._held.claiming:
            entries = self._choose()
            result = await self._claim(entries) if entries else DispatchResult()
        if self._preemption is not None:
            self._preemption.run_once()
        return result

    @property
    def _most(self) -> int:
        """Entries of one claim."""
        return self._ramp.most(self._batch)

    def awaits(self) -> bool:
        """Whether more is ready, if it is admitted."""
        return self._claims.awaits()

    def idle(self) -> int:
        """Slots that nothing on the agenda waits for."""
        if self.awaits() or not self._claimer.may_claim():
            return 0
        return min(self._pipe.free(), self._most)

    def has_room_for_suspects(self) -> bool:
        return self._held.suspects.has_room()

    async def steal(self, entries: Sequence[Entry]) -> DispatchResult:
        """Claim due tasks of shards that others serve, as far as slots are still idle. Those that
        were not claimed are left to whoever has them."""
        async with self._held.claiming:
            chosen = self._claims.steal(entries, self.idle())
            return await self._claim(chosen) if chosen else DispatchResult()

    async def _claim(self, entries: list[Entry]) -> DispatchResult:
        try:
            result = await self._claimer.claim(entries)
        except StoreExhausted:
            self._ramp.exhausted()
            raise
        self._ramp.went_well(self._batch)
        return DispatchResult(len(entries), result.claimed, result.started_over)

    def _choose(self) -> list[Entry]:
        chosen = self._claims.take(min(self._pipe.room(), self._most))
        chosen = self._claims.once(chosen + self._urgent(len(chosen)))
        own, others = self._requeue.still_own(chosen)
        if others:
            self._claims.missed(others)
        return own

    def _urgent(self, chosen: int) -> list[Entry]:
        """CRITICAL entries, for the slots that are kept for them, and for those that running tasks
        can be made to leave."""
        room = min(self._pipe.urgent_room(), self._most) - chosen
        taken = self._claims.take_urgent(room)
        if len(taken) < room or self._preemption is None:
            return taken  # there is no more of it
        more = min(self._preemption.room(), self._most) - chosen - len(taken)
        return taken + self._claims.take_urgent(more, evicting=True)
