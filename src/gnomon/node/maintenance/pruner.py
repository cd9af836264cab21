"""Makes partitions ahead and removes rows past their time, on one node at a time.

Rows are removed in batches that take about a tenth of a second each, with a rest as long as the
batch in between, so that at most half of one connection's time goes to it. A pass goes on until
nothing is left, whatever was fed meanwhile; one that does not get there says so.
"""

import msgspec
import structlog

from gnomon.chores import About, Troubles
from gnomon.clock import Clock
from gnomon.model.errors import StoreError
from gnomon.model.fleet.retention import RowKind
from gnomon.node.maintenance.retention_alarm import Late, RetentionAlarm
from gnomon.node.membership.lease import Lease
from gnomon.settings import DatabaseSettings
from gnomon.store.ports.roster import Removal
from gnomon.store.postgres.dispatch.roster import PostgresChores

log = structlog.get_logger("gnomon.node")

CHORE = "prune"
EVERY_SECONDS = 15.0
_HELD_SECONDS = 180.0
_PARTITION_SECONDS = 60.0
_PASS_SECONDS = 60.0
_BATCH_SECONDS = 0.1
_SMALLEST, _FIRST, _LARGEST = 100, 1_000, 20_000


class PruneResult(msgspec.Struct, frozen=True):
    """How much was made and removed; `held` is False where another node has the chore."""

    held: bool = False
    made: int = 0
    dropped: int = 0
    removed: int = 0
    behind: frozenset[RowKind] = frozenset()  # of which there is more than the pass could remove


class Pruner:
    """Keeps the store in shape."""

    def __init__(
        self,
        store: PostgresChores,
        lease: Lease,
        settings: DatabaseSettings,
        clock: Clock,
        troubles: Troubles,
        alarm: RetentionAlarm,
    ) -> None:
        self._alarm = alarm
        self._troubles = troubles
        self._store = store
        self._lease = lease
        self._retention = settings.retention_days
        self._activity = settings.activity_days
        self._clock = clock
        self._partitions_at = clock.monotonic()
        self._sizes = dict.fromkeys(RowKind, _FIRST)
        self._drained_at = dict.fromkeys(RowKind, clock.monotonic())
        self.pass_seconds = _PASS_SECONDS

    async def run_once(self) -> PruneResult:
        if not await self._store.hold(CHORE, self._lease.incarnation, _HELD_SECONDS):
            self._drained_at = dict.fromkeys(RowKind, self._clock.monotonic())
            self._alarm.tell({})  # that is for its holder to say
            return PruneResult()
        removed, behind = await self._remove()
        late = self._late(behind)
        self._alarm.tell(late)
        made, dropped = await self._partitions()
        await self._alarm.tell_operators(late)
        return PruneResult(True, made, dropped, removed, frozenset(behind))

    async def _partitions(self) -> tuple[int, int]:
        if self._clock.monotonic() < self._partitions_at:
            return 0, 0
        made = await self._store.make_partitions()
        dropped = await self._store.drop_partitions(self._retention)
        self._partitions_at = self._clock.monotonic() + _PARTITION_SECONDS
        if dropped:
            log.info("dropped partitions past retention", partitions=dropped)
        return len(made), len(dropped)

    async def _remove(self) -> tuple[int, set[RowKind]]:
        """A batch of each kind in turn, until none is left or the time is over."""
        removed, left, refused = 0, set(RowKind), set[RowKind]()
        deadline = self._clock.monotonic() + self.pass_seconds
        while left:
            for kind in [kind for kind in RowKind if kind in left]:
                started_at = self._clock.monotonic()
                batch = await self._batch(kind)
                if batch is None:
                    left.discard(kind)
                    refused.add(kind)
                    continue
                ended_at = self._clock.monotonic()
                removed += batch.removed
                if not batch.more:
                    left.discard(kind)
                    self._drained_at[kind] = started_at
                    continue
                self._sizes[kind] = adapted(self._sizes[kind], ended_at - started_at)
                await self._clock.sleep(min(ended_at - started_at, 1.0))
            if self._clock.monotonic() >= deadline:
                break
        return removed, left | refused

    async def _batch(self, kind: RowKind) -> Removal | None:
        """None where it is refused: that keeps neither the other kinds nor partitions back."""
        about = About(subject=f"rows of {kind}")
        days = self._activity if kind is RowKind.ACTIVITY else self._retention
        try:
            batch = await self._store.remove(kind, self._sizes[kind], days)
        except StoreError as error:
            self._troubles.note(CHORE, error, about)
            return None
        self._troubles.over(CHORE, about)
        return batch

    def _late(self, behind: set[RowKind]) -> Late:
        now = self._clock.monotonic()
        return {kind: now - self._drained_at[kind] for kind in behind}


def adapted(size: int, seconds: float) -> int:
    """The size of the next batch, after one of this size that took so long."""
    if seconds > 2 * _BATCH_SECONDS:
        return max(_SMALLEST, size // 2)
    if seconds < _BATCH_SECONDS / 2:
        return min(_LARGEST, size * 2)
    return size
