"""The store's claiming statements, in the name of one incarnation."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from gnomon.clock import Clock
from gnomon.model.tasks.task import TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.pipe.envelope import Delivery, FencedKey
from gnomon.store.ports.dispatch import Burial, Buried, Claim, DispatchStore, Entry, Recalls
from gnomon.store.ports.planning import OverlapAnswer, PlanningStore

_NOBODY = UUID(int=0)  # a session that there is not: what is for it is not claimed


class ClaimStore:
    """Claims only while the lease is trusted, and sets the clock by every answer."""

    def __init__(
        self,
        store: DispatchStore,
        planning: PlanningStore,
        lease: Lease,
        clock: Clock,
        session_of: Callable[[TaskKey], UUID | None] | None = None,
    ) -> None:
        """`session_of`: that each is claimed for, where a gateway claims."""
        self._session_of = session_of
        self._store = store
        self._planning = planning
        self._lease = lease
        self._clock = clock
        self.took = 0.0  # seconds of the last claim; they are made one after the other

    def is_trusted(self) -> bool:
        """Whether anything may be claimed now."""
        return self._lease.is_trusted(self._clock.monotonic())

    async def claim(self, entries: Sequence[Entry], early: float = 0.0) -> Claim:
        """Claim the entries that are waiting and due, or due in `early` seconds, and need nobody's
        consent."""
        asked_at = self._clock.monotonic()
        columns = self._columns(entries)
        claim = await self._store.claim(self._lease.incarnation, *columns, early=early)
        self._observe(claim, asked_at)
        return claim

    async def recalls(self) -> Recalls:
        """The store's time, and whether anything was taken back that was claimed early."""
        asked_at = self._clock.monotonic()
        recalls = await self._store.recalls()
        self._clock.observe(datetime.fromtimestamp(recalls.now, UTC), asked_at)
        return recalls

    async def begin(self, claimed: Sequence[Delivery]) -> set[FencedKey]:
        """Mark as begun those whose claim still stands; gives which claims."""
        return await self._store.begin(claimed)

    async def claim_runs(self, entries: Sequence[Entry]) -> OverlapAnswer:
        """Runs of cron jobs whose jobs must be asked."""
        asked_at = self._clock.monotonic()
        answer = await self._planning.claim_runs(self._lease.incarnation, *self._columns(entries))
        self._observe(answer.claim, asked_at)
        return answer

    async def bury(self, burial: Burial) -> list[Buried]:
        """Make a dead letter of a claimed task that cannot be read; gives it, if it was."""
        return await self._store.bury(self._lease.incarnation, [burial])

    def _columns(self, entries: Sequence[Entry]) -> tuple[list[TaskKey], list[int], list[UUID]]:
        keys, flows = [e.key for e in entries], [e.flow for e in entries]
        if self._session_of is None:
            return keys, flows, []
        sessions = map(self._session_of, keys)
        return keys, flows, [session or _NOBODY for session in sessions]

    def _observe(self, claim: Claim, asked_at: float) -> None:
        self.took = self._clock.monotonic() - asked_at
        if claim.now is not None:
            self._clock.observe(claim.now, asked_at)
