"""What one node at a time does for all: partitions ahead, retention, old keys and events."""

import msgspec
import structlog

from gnomon.settings import Settings
from gnomon.store.roster_port import ChoreStore
from gnomon.worker.lease import Lease

log = structlog.get_logger("gnomon.scheduler")

CHORE = "prune"
EVERY_SECONDS = 60.0
_FORGOTTEN_AT_ONCE = 10_000


class PruneResult(msgspec.Struct, frozen=True):
    """What was made and removed; `held` is False where another node has the chore."""

    held: bool = False
    made: int = 0
    dropped: int = 0
    forgotten: int = 0


class Pruner:
    """Keeps the store in shape."""

    def __init__(self, store: ChoreStore, lease: Lease, settings: Settings) -> None:
        self._store = store
        self._lease = lease
        self._retention = settings.retention_days

    async def run_once(self) -> PruneResult:
        if not await self._store.hold(CHORE, self._lease.incarnation, 3 * EVERY_SECONDS):
            return PruneResult()
        made = await self._store.make_partitions()
        dropped = await self._store.drop_partitions(self._retention)
        forgotten = await self._store.forget(_FORGOTTEN_AT_ONCE)
        forgotten += await self._store.forget_events(self._retention, _FORGOTTEN_AT_ONCE)
        if dropped:
            log.info("dropped partitions past retention", partitions=dropped)
        return PruneResult(True, len(made), len(dropped), forgotten)
