"""Lets tasks start only with a permit of every bucket that they are limited by.

Nothing is asked of the store here: what is not in hand is refused, and noted for the
`PermitKeeper`, which gets more and lets the flows in again. A task's permits are its own from its
choice to its settlement. Where the answer to a claim was lost, nobody knows whether it runs: then
they stay with its key until that is known.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from gnomon.clock import Clock
from gnomon.fair.queue import Flow as FlowId
from gnomon.model.flow import Flow
from gnomon.model.limit import EXECUTIONS_PER_MINUTE, Bucket, Limiter, buckets
from gnomon.model.task import TaskKey
from gnomon.model.tenant import Quotas
from gnomon.pipe.envelope import Delivery, Report
from gnomon.scheduler.accounts import USE_SECONDS, Account, Batch
from gnomon.scheduler.agenda import Agenda
from gnomon.scheduler.flows import FlowBook
from gnomon.store.port import Entry

# Flows that wait for one bucket are many where it has no key and another one has. Letting all of
# them in for every permit that is free would cost more than the tasks.
_LET_IN_AT_ONCE = 32
_MOST_NEEDS = 50_000


class Limits(Protocol):
    """What is known of the limits in force: see gnomon.store.directory."""

    def limiters(self, tenant_id: str) -> Sequence[Limiter]: ...
    def quotas(self, tenant_id: str) -> Quotas: ...
    def on_change(self, told: Callable[[], None]) -> None: ...


class Need(msgspec.Struct, frozen=True, gc=False):
    """What every task of a flow needs of one bucket."""

    account: Account
    permit: bool
    start: bool


class Hold:
    """What one task has taken of one bucket."""

    __slots__ = ("account", "batch", "called", "permit")

    def __init__(self, account: Account, permit: bool = False) -> None:
        self.account = account
        self.permit = permit
        self.batch: Batch | None = None
        self.called = False  # with a start of that batch

    def has(self, need: Need, now: float) -> bool:
        return (self.permit or not need.permit) and (not need.start or self.can_start(now))

    def can_start(self, now: float) -> bool:
        return self.batch is not None and self.batch.good_until - now > USE_SECONDS


class Needs(msgspec.Struct, frozen=True, gc=False):
    """What every task of a flow needs, in the order of the buckets."""

    each: tuple[Need, ...]
    # What each task has then, where that is the same for all: permits, and no starts.
    plain: tuple[Hold, ...] | None


class Permits:
    """An `Admission`, and a `Gate` before the call."""

    def __init__(
        self, limits: Limits, agenda: Agenda, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.flows = FlowBook()
        self.accounts: dict[Bucket, Account] = {}
        self.hot: set[Account] = set()  # something is to be asked of the store, soon
        self.wanted = asyncio.Event()  # now
        self.stuck: Container[TaskKey] = ()  # ended, and running for good by their rows
        self._limits = limits
        self._agenda = agenda
        self._clock = clock
        self._wake = wake
        self._rules: dict[str, tuple[Limiter, ...]] = {}
        self._needs: dict[FlowId, Needs] = {}
        self._taken: dict[TaskKey, Sequence[Hold]] = {}
        self._doubtful: set[TaskKey] = set()  # may have been claimed, with an answer that was lost
        limits.on_change(self._changed)

    # Before the claim, and after it

    def admit(self, entry: Entry) -> bool:
        rules = self._rules_of(entry.key.tenant_id)
        if not rules:
            return True
        number = (entry.key.tenant_id, entry.flow)
        needs = self._needs.get(number)
        if needs is None:
            if self.flows.is_stale(entry):
                return True
            flow = self.flows.find(entry)
            if flow is None:
                self.wanted.set()
                return False
            needs = self._needs_of(number, flow)
        return not needs.each or self._take(entry, needs)

    def missed(self, keys: Iterable[TaskKey]) -> None:
        if not self._taken:
            return
        for key in keys:
            if key not in self._doubtful:
                self._free(key, unstarted=True)

    def claimed(self, delivery: Delivery) -> bool:
        if not self._rules_of(delivery.key.tenant_id):
            return True
        self._doubtful.discard(delivery.key)
        needs = self._needs_of((delivery.key.tenant_id, delivery.flow), self.flows.learn(delivery))
        if not needs.each:
            return True
        holds = self._taken.get(delivery.key)
        if holds is None or holds is needs.plain:
            return holds is not None
        now = self._clock.monotonic()
        return all(_found(need, holds, now) for need in needs.each)

    def may_call(self, delivery: Delivery) -> bool:
        """Whether its starts are still good."""
        holds = self._taken.get(delivery.key)
        if holds is None:
            return True
        now = self._clock.monotonic()
        for hold in holds:
            if hold.batch is not None and not hold.can_start(now):
                return False
        for hold in holds:
            if hold.batch is not None and not hold.called:
                hold.called = True
                hold.batch.spent += 1
        return True

    def called(self, report: Report) -> None:
        """All is said when it is settled."""

    def ended(self, report: Report) -> None:
        key = report.delivery.key
        if key in self._taken and key not in self.stuck:
            self._free(key, unstarted=report.outcome is None)

    # What is taken

    def _take(self, entry: Entry, needs: Needs) -> bool:
        now = self._clock.monotonic()
        holds = self._taken.get(entry.key, ())
        lacking = needs.each
        if holds:
            self._doubtful.add(entry.key)
            lacking = tuple(need for need in lacking if not _found(need, holds, now))
        for place, need in enumerate(lacking):
            if not _is_to_be_had(need, holds, now):
                self._refuse(entry, lacking, place, now)
                return False
        if needs.plain is not None and not holds:
            for need in lacking:
                need.account.used += 1
                need.account.used_at = now
            self._taken[entry.key] = needs.plain
        elif lacking:
            taken = [self._take_one(need, holds, now) for need in lacking]
            fresh = {hold.account for hold in taken}
            self._taken[entry.key] = [*(h for h in holds if h.account not in fresh), *taken]
        return True

    def _take_one(self, need: Need, holds: Sequence[Hold], now: float) -> Hold:
        account = need.account
        account.used_at = now
        before = _hold(account, holds)
        hold = Hold(account, before is not None and before.permit)
        if need.permit and not hold.permit:
            hold.permit = True
            account.used += 1
        if need.start:
            batch = account.batch(now)
            assert batch is not None, "it was to be had"
            hold.batch = batch
            batch.left -= 1
            account.started += 1
            if batch.left < account.low and account.ask_at <= now:
                self._note(account)
        return hold

    def _refuse(self, entry: Entry, needs: tuple[Need, ...], place: int, now: float) -> None:
        """Note what is lacking. What comes before it is kept for a while; what comes after it is
        the first to be returned, so that two nodes never keep from each other what both need."""
        lacking = needs[place].account
        lacking.refused += 1
        lacking.flows[(entry.key.tenant_id, entry.flow)] = None
        for need in needs[:place]:
            need.account.used_at = now
        for need in needs[place + 1 :]:
            if need.account.used == 0:
                need.account.used_at = float("-inf")
        if lacking.ask_at <= now:
            self._note(lacking)

    def _note(self, account: Account) -> None:
        self.hot.add(account)
        self.wanted.set()

    def _free(self, key: TaskKey, *, unstarted: bool) -> None:
        self._doubtful.discard(key)
        for hold in self._taken.pop(key, ()):
            account = hold.account
            if hold.permit:
                account.used -= 1
            if hold.batch is not None and unstarted and not hold.called:
                hold.batch.left += 1
            if account.has_surplus:
                self._note(account)
            elif account.flows:
                self.let_in(account)

    def let_in(self, account: Account) -> None:
        """Let flows that wait for this bucket be asked for again, if it has something to give."""
        if account.flows and (account.used < account.allowed or account.batches):
            chosen = list(account.flows)[:_LET_IN_AT_ONCE]
            for flow in chosen:
                del account.flows[flow]
            self.let_in_flows(chosen)

    def let_in_flows(self, flows: list[FlowId]) -> None:
        if self._agenda.let_in(flows):
            self._wake()

    # What is not known to be claimed

    def unclaimed(self, held: Container[TaskKey]) -> list[TaskKey]:
        """Keys that have taken something, and are not known to run."""
        return [key for key in self._taken if key not in held and key not in self.stuck]

    def free(self, keys: Iterable[TaskKey]) -> None:
        """These do not run after all."""
        for key in keys:
            self._free(key, unstarted=True)

    # What is needed

    def forget(self, accounts: Iterable[Account]) -> None:
        """These are at rest."""
        for account in accounts:
            del self.accounts[account.bucket]
            self.hot.discard(account)
        self._needs.clear()

    def _changed(self) -> None:
        """Limits have changed: what was refused by the old ones may be taken by the new."""
        self._rules.clear()
        self._needs.clear()
        for account in self.accounts.values():
            flows, account.flows = list(account.flows), {}
            self.let_in_flows(flows)
            account.ask_at = self._clock.monotonic()
            self._note(account)

    def _rules_of(self, tenant_id: str) -> tuple[Limiter, ...]:
        rules = self._rules.get(tenant_id)
        if rules is None:
            rules = self._rules[tenant_id] = tuple(_rules(self._limits, tenant_id))
        return rules

    def _needs_of(self, number: FlowId, flow: Flow) -> Needs:
        needs = self._needs.get(number)
        if needs is None:
            found = sorted(buckets(self._rules_of(flow.tenant_id), flow), key=lambda f: f[1])
            each = tuple(self._need(limiter, bucket) for limiter, bucket in found)
            plain = None
            if not any(need.start for need in each):
                plain = tuple(Hold(need.account, permit=True) for need in each)
            needs = Needs(each, plain)
            if len(self._needs) >= _MOST_NEEDS:
                self._needs.clear()
            if number[1]:
                self._needs[number] = needs
        return needs

    def _need(self, limiter: Limiter, bucket: Bucket) -> Need:
        account = self.accounts.get(bucket)
        if account is None:
            account = self.accounts[bucket] = Account(bucket, self._clock.monotonic())
        account.counts = limiter.concurrency is not None
        account.rates = limiter.rate is not None
        account.quota = limiter.rate if limiter.name == EXECUTIONS_PER_MINUTE else None
        return Need(account, account.counts, account.rates)


def _hold(account: Account, holds: Sequence[Hold]) -> Hold | None:
    for hold in holds:
        if hold.account is account:
            return hold
    return None


def _found(need: Need, holds: Sequence[Hold], now: float) -> bool:
    """Whether it was taken before, and is still good."""
    hold = _hold(need.account, holds)
    return hold is not None and hold.has(need, now)


def _is_to_be_had(need: Need, holds: Sequence[Hold], now: float) -> bool:
    account = need.account
    if need.permit and account.used >= account.allowed:
        hold = _hold(account, holds)
        if hold is None or not hold.permit:
            return False
    return not need.start or account.batch(now) is not None


def _rules(limits: Limits, tenant_id: str) -> Iterator[Limiter]:
    yield from limits.limiters(tenant_id)
    quota = limits.quotas(tenant_id).executions_per_minute
    if quota is not None:
        yield Limiter(tenant_id=tenant_id, name=EXECUTIONS_PER_MINUTE, rate=quota, per_seconds=60.0)
