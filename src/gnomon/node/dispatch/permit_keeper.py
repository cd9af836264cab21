"""Gets the permits that tasks wait for, and returns those that others wait for."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
import structlog

from gnomon.chores import About, Service, Troubles, every, isolated
from gnomon.clock import Clock
from gnomon.limits.exchange import Ask
from gnomon.limits.holdings import Holding, Wish
from gnomon.limits.store_time import StoreTime
from gnomon.model.errors import StoreError
from gnomon.model.tasks.task import TaskKey
from gnomon.node.dispatch.permits import Permits
from gnomon.pipe.port import Pipe
from gnomon.store.postgres.limits.permits import PostgresLimits

log = structlog.get_logger("gnomon.node")

ROUND_SECONDS = 0.1  # between rounds, where nothing is to be asked for before
LOOK_SECONDS = 0.5  # between looks at all that is in use: others may wait, or starts have been made
RECONCILE_SECONDS = 5.0
_SHORTEST_PAUSE = 0.001
_SHORTEST_ROUND = 0.005  # where nothing has happened here
_ASKED_AT_ONCE = 200  # buckets; they are locked until the call ends
_REMEDY = "its tasks wait for permits meanwhile: change or remove the limiter (`gnomon limits`)"


def _about(account: Holding) -> About:
    bucket = account.bucket
    of_key = f" for the key {bucket.key!r}" if bucket.key else ""
    return About(bucket.tenant_id, f"limiter {bucket.limiter}{of_key}")


class ExchangeResult(msgspec.Struct, frozen=True):
    """How many buckets a round asked for, and how many flows it looked up."""

    asked: int = 0
    learned: int = 0


class PermitKeeper:
    """Speaks with the store for `Permits`."""

    def __init__(
        self,
        store: PostgresLimits,
        permits: Permits,
        pipe: Pipe,
        clock: Clock,
        node: UUID,
        troubles: Troubles,
    ) -> None:
        self._troubles = troubles
        self._store = store
        self._permits = permits
        self._held = permits.held
        self._pipe = pipe
        self._clock = clock
        self._node = node
        self._turn = 0
        self._time = StoreTime()
        self._looked_at = float("-inf")
        self._rest = _SHORTEST_PAUSE  # seconds, after the last exchange
        self._in_doubt: dict[TaskKey, float] = {}  # since when

    def services(self) -> list[Service]:
        return [
            Service("permits", self.run_once, self._until_wanted),
            every("free-permits", self.reconcile, self._clock, RECONCILE_SECONDS),
        ]

    async def _until_wanted(self) -> None:
        """Wait until there is something to ask for."""
        await self._clock.sleep(self._rest)
        await self._clock.wait(self._permits.wanted, self._pause(self._clock.monotonic()))
        self._permits.wanted.clear()

    async def run_once(self) -> ExchangeResult:
        """Look up flows, and bring what is held to what is wanted."""
        began = self._clock.monotonic()
        looked = await self._permits.flows.look_up(self._store.flows_of)
        if looked.flows:
            self._permits.learned(looked)
        wanted = await self._wanted_by_others()
        accounts = list(self._due(self._clock.monotonic()) | wanted)
        try:
            for start in range(0, len(accounts), _ASKED_AT_ONCE):
                part = accounts[start : start + _ASKED_AT_ONCE]
                await isolated(part, self._exchange, self._blame)
        except BaseException:
            self._permits.hot.update(accounts)  # they may hold more than is known here
            raise
        # Where there are many buckets it takes long, and must not take all the time.
        took = self._clock.monotonic() - began if len(accounts) > 1 else 0.0
        self._rest = max(_SHORTEST_PAUSE, took)
        return ExchangeResult(len(accounts), len(looked.flows))

    def _pause(self, now: float) -> float:
        """Until something that tasks wait for may be had."""
        short = [account for account in self._permits.short if account.flows]
        times = [min(account.ask_at, account.next_start()) for account in short]
        soonest = min(times, default=float("inf")) - now
        return min(ROUND_SECONDS, max(_SHORTEST_ROUND, soonest))

    def _due(self, now: float) -> set[Holding]:
        """The buckets to ask for."""
        permits = self._permits
        chosen = {a for a in permits.hot if a.ask_at <= now or a.has_surplus}
        permits.hot -= chosen
        for account in permits.short:
            permits.let_in(account)  # starts that were granted ahead may be good by now
        permits.short = {a for a in permits.short if a.flows}
        chosen |= {a for a in permits.short if a.ask_at <= now}
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            idle = {a for a in permits.accounts.values() if a.is_at_rest(now)}
            at_rest = idle - chosen - permits.hot
            if at_rest:
                permits.forget(at_rest)
            chosen |= {a for a in permits.accounts.values() if a.has_news(now)}
        return chosen

    async def _wanted_by_others(self) -> set[Holding]:
        """Buckets of which this node holds something that others wait for."""
        if self._clock.monotonic() - self._looked_at < LOOK_SECONDS:
            return set()
        accounts = self._permits.accounts
        if not any(a.permits or a.batches for a in accounts.values()):
            return set()
        wanted = await self._store.wanted(self._node)
        return {accounts[bucket] for bucket in wanted if bucket in accounts}

    async def _blame(self, account: Holding, error: StoreError) -> list[None]:
        """Keep what is held of it; more is asked for later."""
        pause = self._troubles.note("permits", error, _about(account), _REMEDY)
        account.ask_at = self._clock.monotonic() + pause
        self._permits.short.add(account)
        return []

    async def _exchange(self, accounts: Sequence[Holding]) -> list[None]:
        self._turn += 1
        asked_at = self._clock.monotonic()
        asks = {account: self._ask(account, asked_at) for account in accounts}
        grants = await self._store.exchange(self._node, self._turn, list(asks.values()))
        now = self._clock.monotonic()
        for grant in grants[:1] + grants[-1:]:
            self._time.heard(grant.now, asked_at, now)
        by_bucket = {account.bucket: account for account in accounts}
        for grant in grants:
            account = by_bucket[grant.bucket]
            account.granted(grant, asks[account], self._time, now)
            if account.has_surplus:
                self._permits.hot.add(account)
                self._permits.wanted.set()
            self._permits.let_in(account)
            self._troubles.over("permits", _about(account))
        return []

    def _ask(self, account: Holding, now: float) -> Ask:
        # One at least: where others take all room as soon as there is any, it is never seen here.
        room = max(1, self._pipe.room())
        waiting = min(room, max(self._permits.waiting(account, room), account.refused))
        return account.ask(Wish(waiting, self._held.stopped), now)

    async def reconcile(self) -> int:
        """Free what was taken for claims that have not been made; gives for how many. Not at
        once: one whose answer was lost may be on its way to the store."""
        async with self._held.claiming:
            now = self._clock.monotonic()
            keys = self._permits.unclaimed()
            self._in_doubt = {key: self._in_doubt.get(key, now) for key in keys}
            old = [k for k, since in self._in_doubt.items() if now - since >= RECONCILE_SECONDS]
            if not old:
                return 0
            running = await self._store.running(self._node)
            if running is None:
                return 0
            freed = [key for key in old if key not in running]
            self._permits.free(freed)
        if freed:
            log.warning("freed permits of claims that were not made", count=len(freed))
        return len(freed)
