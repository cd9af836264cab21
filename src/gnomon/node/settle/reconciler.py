"""Compares the tasks that the store says a node runs with those that it does run."""

import structlog

from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.takeover import Takeover, released
from gnomon.node.workers import Workers
from gnomon.observe.node_events import Recovery
from gnomon.store.ports.dispatch import DispatchStore

log = structlog.get_logger("gnomon.node")


class Reconciler:
    """Releases what the node does not know, and interrupts what was cancelled unheard."""

    def __init__(
        self,
        store: DispatchStore,
        takeover: Takeover,
        held: HeldTasks,
        worker: Workers,
        lease: Lease,
    ) -> None:
        self._store = store
        self._takeover = takeover
        self._held = held
        self._worker = worker
        self._lease = lease

    async def run_once(self) -> int:
        """Gives how many were released: their claims were answered, and the answer was lost."""
        async with self._held.taking, self._held.claiming:
            before = dict(self._held.fences)
            rows = await self._store.running_on(self._lease.incarnation)
        # What was held before the look and is not after it was settled meanwhile.
        unknown = [
            r for r in rows if before.get(r.key) != r.fence and not self._held.holds(r.key, r.fence)
        ]
        for row in rows:
            if row.cancel_requested:
                self._worker.interrupt(row.key, "cancelled")
        count = await self._takeover.settle(unknown, released, Recovery.UNKNOWN)
        if count:
            log.warning("released tasks whose claim was answered but lost", count=count)
        return count
