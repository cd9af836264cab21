"""Settles tasks that their node cannot settle any more: it died, or does not know them."""

from collections.abc import Callable, Sequence

from gnomon.chores import Troubles, about_task, isolated
from gnomon.model.errors import StoreError
from gnomon.model.outcomes.verdict import release
from gnomon.node.dispatch.claimer import BURIED_REMEDY
from gnomon.node.settle.follow_up import FollowUp
from gnomon.observe.events import Observer
from gnomon.observe.node_events import Recovery, TasksRecovered
from gnomon.store.ports.dispatch import Burial, DispatchStore, RunningTask, Settled, Settlement

_REMEDY = "nobody runs it, and its row cannot be written: delete the task"


class Takeover:
    """One that cannot be settled becomes a dead letter, and keeps no other back."""

    def __init__(
        self, store: DispatchStore, follow_up: FollowUp, troubles: Troubles, emit: Observer
    ) -> None:
        self._store = store
        self._follow_up = follow_up
        self._troubles = troubles
        self._emit = emit

    async def settle(
        self,
        rows: Sequence[RunningTask],
        settlement_of: Callable[[RunningTask], Settlement],
        reason: Recovery,
    ) -> int:
        """Write what is decided of each; gives how many were accepted."""
        if not rows:
            return 0
        settlements = [settlement_of(row) for row in rows]
        settled = await isolated(settlements, self._store.settle, self._bury)
        self._follow_up.settled(rows, settlements, settled)
        if settled:
            done = {each.key for each in settled}
            silent = {row.incarnation: row.silent_seconds for row in rows if row.key in done}
            silences = () if reason is not Recovery.NODE_LOST else tuple(silent.values())
            self._emit(TasksRecovered(reason, len(settled), silences))
        return len(settled)

    async def _bury(self, settlement: Settlement, error: StoreError) -> list[Settled]:
        about, reason = about_task(settlement.key), f"it cannot be taken over: {error}"[:500]
        try:
            burial = Burial(settlement.key, settlement.fence, reason)
            self._follow_up.buried(await self._store.bury(settlement.incarnation, [burial]))
        except StoreError as refused:
            self._troubles.note("sweep", refused, about, _REMEDY)
        else:
            self._troubles.note("sweep", error, about, BURIED_REMEDY)
        return []


def released(row: RunningTask) -> Settlement:
    """Settles a task that was claimed and not started: it waits again, as before."""
    return Settlement(row.key, row.fence, row.incarnation, release(row), unbegun=True)
