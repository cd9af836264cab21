"""Judges tasks by their service levels: late starts and slow executions."""

from collections import Counter
from datetime import datetime

from gnomon.clock import Clock
from gnomon.node.membership.lease import Lease
from gnomon.store.ports.insight.levels import LevelCounts, LevelEvent, total_of
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.levels.level_store import PostgresLevels

CHORE = "levels"
EVERY_SECONDS = 1.0
MOST_TOLD = 10  # events of a kind, type and tenant in a minute; the report counts all
_HOLD_SECONDS = 5.0  # a holder that died is replaced so soon
_AT_ONCE = 500
_ROUNDS = 40  # of one pass; what is left is for the next one


class LevelJudge:
    """Looks at the tasks whose time has come. All that it knows is in the store."""

    def __init__(
        self,
        store: PostgresLevels,
        chores: PostgresChores,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._clock = clock
        self._told = _ToldEvents()

    async def run_once(self) -> LevelCounts:
        """What was judged; nothing where another node has the chore."""
        sums: list[LevelCounts] = []
        for _ in range(_ROUNDS):
            if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
                break
            self._told.minute_of(self._clock.now())
            found = await self._store.judge(_AT_ONCE, self._told.is_told)
            sums.append(found.counts)
            if found.looked_at < _AT_ONCE:
                break
        return total_of(sums)


class _ToldEvents:
    """How many of each were told in this minute: a thousand late tasks of a type are one problem,
    and its first events say so."""

    def __init__(self) -> None:
        self._minute: datetime | None = None
        self._counts = Counter[tuple[str, str, str]]()

    def minute_of(self, now: datetime) -> None:
        minute = now.replace(second=0, microsecond=0)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()

    def is_told(self, event: LevelEvent) -> bool:
        key = (event.tenant_id, event.kind, event.task_type)
        self._counts[key] += 1
        return self._counts[key] <= MOST_TOLD
