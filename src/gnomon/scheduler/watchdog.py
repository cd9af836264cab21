"""Finds the fires of cron jobs that did not start within their window, and raises the alarm."""

import msgspec

from gnomon.clock import Clock, new_id
from gnomon.observe.events import Observer
from gnomon.store.event_port import WatchStore
from gnomon.store.roster_port import ChoreStore
from gnomon.worker.lease import Lease

CHORE = "watch"
EVERY_SECONDS = 1.0
# A holder that died is replaced so soon.
_HOLD_SECONDS = 5.0
_AT_ONCE = 200
_ROUNDS = 50  # of one pass; what is left is for the next one


class WatchResult(msgspec.Struct, frozen=True):
    """What a pass judged and found; `held` is False where another node has the chore."""

    held: bool = False
    judged: int = 0
    missed: int = 0


class Watchdog:
    """Barks once for each fire: two that look at once are kept apart by the store."""

    def __init__(
        self,
        store: WatchStore,
        chores: ChoreStore,
        lease: Lease,
        clock: Clock,
        emit: Observer,
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._clock = clock
        self._emit = emit

    async def run_once(self) -> WatchResult:
        judged = missed = 0
        for _ in range(_ROUNDS):
            if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
                return WatchResult(False, judged, missed)
            now = self._clock.now()
            found = await self._store.judge(sorted(new_id(now) for _ in range(_AT_ONCE)))
            for event in found.missed:
                self._emit(event)
            judged += found.count
            missed += len(found.missed)
            if found.count < _AT_ONCE:
                break
        return WatchResult(True, judged, missed)
