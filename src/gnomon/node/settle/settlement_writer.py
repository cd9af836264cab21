"""Writes settlements, however long PostgreSQL is unavailable, and whatever one of them holds."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from gnomon.chores import Troubles, about_task, isolated
from gnomon.clock import Clock
from gnomon.model.errors import StatementRefused, StoreError, StoreUnavailable, Unstorable
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import TaskKey
from gnomon.model.workflow_errors import SpawnRefused
from gnomon.node.held_tasks import HeldTasks
from gnomon.observe.events import Observer
from gnomon.observe.node_events import SettlementAnswered
from gnomon.store.ports.dispatch import Burial, Buried, DispatchStore, Settled, Settlement

CHORE = "record"
REMEDY = "it has run, and its row cannot be written; it is tried again by itself"

Settle = Callable[[Sequence[Settlement]], Awaitable[list[Settled]]]


class SettlementWriter:
    """Waits while the store is unavailable. A settlement that it refuses is written without its
    details; one that it refuses even so stays RUNNING, and is kept here."""

    def __init__(
        self,
        store: DispatchStore,
        held: HeldTasks,
        clock: Clock,
        troubles: Troubles,
        on_buried: Callable[[Sequence[Buried]], None],
        emit: Observer,
    ) -> None:
        self._store = store
        self._on_buried = on_buried
        self._emit = emit
        self._held = held
        self._clock = clock
        self.troubles = troubles
        self.unsettled: dict[TaskKey, Settlement] = {}  # bare ones that cannot be stored
        self._unanswered: set[tuple[TaskKey, int]] = set()  # sent at least once without an answer

    async def write(
        self, settlements: Sequence[Settlement], first: Settle | None = None
    ) -> list[Settled]:
        """One outcome that cannot be stored does not keep its batch mates back. `first`: how the
        first attempt is made, which is for all of them."""
        attempts = [] if first is None else [first]

        async def one_part(part: Sequence[Settlement]) -> list[Settled]:
            return await self._patiently(part, attempts.pop() if attempts else None)

        while True:
            try:
                return await isolated(settlements, one_part, self._bare)
            except StoreError as error:  # all of them are refused
                await self._clock.sleep(self.troubles.note(CHORE, error))

    async def write_spawning(self, settlement: Settlement, origin: Origin | None) -> list[Settled]:
        """A success, and what it has spawned, however long PostgreSQL is unavailable. Raises
        SpawnRefused, also for what cannot be stored."""
        while True:
            try:
                return await self._store.settle_spawning(settlement, origin)
            except StoreUnavailable as error:
                self._unanswered.add((settlement.key, settlement.fence))
                await self._clock.sleep(self.troubles.note(CHORE, error))
            except (Unstorable, StatementRefused) as error:
                raise SpawnRefused(f"it cannot be stored: {error}") from error

    async def write_again(self, key: TaskKey) -> list[Settled] | None:
        """Write one that is unsettled; if it is refused for good, as a dead letter. None where even
        that is refused."""
        bare, about = self.unsettled[key], about_task(key)
        try:
            settled = await self._settle_or_bury(bare)
        except (Unstorable, StatementRefused) as error:
            self.troubles.note(CHORE, error, about, REMEDY)
            return None
        del self.unsettled[key]
        self._held.stuck.pop(key, None)
        self.troubles.over(CHORE, about)
        return settled

    def answered(self, settlements: Sequence[Settlement]) -> set[tuple[TaskKey, int]]:
        """Those of them, by key and fence, that an attempt may have written whose answer was lost.
        They are forgotten."""
        if not self._unanswered:
            return set()
        found = {(s.key, s.fence) for s in settlements} & self._unanswered
        self._unanswered -= found
        return found

    def due_again(self) -> Iterator[TaskKey]:
        """The unsettled ones whose time to be tried again has come."""
        aside = set(self.troubles.aside(CHORE))
        return (key for key in list(self.unsettled) if about_task(key) not in aside)

    async def _patiently(
        self, settlements: Sequence[Settlement], first: Settle | None = None
    ) -> list[Settled]:
        settle = self._store.settle if first is None else first
        while True:
            asked_at = self._clock.monotonic()
            try:
                settled = await settle(settlements)
            except StoreUnavailable as error:
                settle = self._store.settle
                self._unanswered.update((s.key, s.fence) for s in settlements)
                await self._clock.sleep(self.troubles.note(CHORE, error))
            else:
                took = self._clock.monotonic() - asked_at
                self._emit(SettlementAnswered(len(settlements), took))
                return settled

    async def _bare(self, settlement: Settlement, error: StoreError) -> list[Settled]:
        """Keep the bare facts of an execution whose details cannot be stored."""
        bare = msgspec.structs.replace(
            settlement,
            error=f"the details of this execution could not be stored: {error}"[:500],
            response_body=None,
            result=None,
            traceback=None,
        )
        try:
            return await self._patiently([bare])
        except (Unstorable, StatementRefused) as reason:
            # Releasing the task would run it over and over. So it stays running meanwhile.
            self._held.stuck[settlement.key] = settlement.fence
            self.unsettled[settlement.key] = bare
            self.troubles.note(CHORE, reason, about_task(settlement.key), REMEDY)
            return []

    async def _settle_or_bury(self, bare: Settlement) -> list[Settled]:
        try:
            return await self._store.settle([bare])
        except Unstorable as error:
            reason = f"its outcome cannot be stored: {error}"[:500]
            burial = Burial(bare.key, bare.fence, reason)
            self._on_buried(await self._store.bury(bare.incarnation, [burial]))
            return []
