"""Finds the fires of cron jobs that did not start within their window, and raises the alarm."""

import msgspec

from gnomon.chores import Troubles, about_job, jobs_in
from gnomon.clock import Clock, new_id
from gnomon.model.errors import StatementRefused, Unstorable
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import Observer
from gnomon.store.ports.insight.events import Judged
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_reader import PostgresWatch

CHORE = "watch"
EVERY_SECONDS = 1.0
# A holder that died is replaced so soon.
_HOLD_SECONDS = 5.0
_AT_ONCE = 200
_ROUNDS = 50  # of one pass; what is left is for the next one
_MOST_REFUSED = 8  # jobs that are set aside in one pass
_REMEDY = "its SLA is not watched meanwhile: see `gnomon cron show`, change it or its sla_seconds"


class WatchResult(msgspec.Struct, frozen=True):
    """How many fires a pass judged; `held` is False where another node has the chore."""

    held: bool = False
    judged: int = 0
    missed: int = 0


class Watchdog:
    """Barks once for each fire: two that look at once are kept apart by the store."""

    def __init__(
        self,
        store: PostgresWatch,
        chores: PostgresChores,
        lease: Lease,
        clock: Clock,
        emit: Observer,
        troubles: Troubles,
    ) -> None:
        self._troubles = troubles
        self._store = store
        self._chores = chores
        self._lease = lease
        self._clock = clock
        self._emit = emit
        self._refused = 0

    async def run_once(self) -> WatchResult:
        judged = missed = 0
        began = self._clock.monotonic()
        self._refused = 0
        for _ in range(_ROUNDS):
            if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
                return WatchResult(False, judged, missed)
            found, most = await self._judge(_AT_ONCE)
            for event in found.missed:
                self._emit(event)
            judged += found.count
            missed += len(found.missed)
            if most == _AT_ONCE and found.count < most:
                self._troubles.over_since(CHORE, began)
                break
        return WatchResult(True, judged, missed)

    async def _judge(self, most: int) -> tuple[Judged, int]:
        """Misses among the next fires, and of how many; of fewer than asked for, where one of
        them cannot be judged: then its job is looked for, and set aside."""
        now = self._clock.now()
        aside = jobs_in(self._troubles.aside(CHORE))
        try:
            return await self._store.judge(sorted(new_id(now) for _ in range(most)), aside), most
        except (Unstorable, StatementRefused) as error:
            if most > 1:
                return await self._judge(most // 8 or 1)
            job = await self._store.next_job(aside)
            self._refused += 1
            if job is None or self._refused > _MOST_REFUSED:
                raise  # it is not the fires
            self._troubles.note(CHORE, error, about_job(job.tenant_id, job.id), _REMEDY)
            return Judged(0, []), 1
