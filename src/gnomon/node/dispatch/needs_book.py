"""The limits in force on a node, and what the tasks of each flow need by them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from gnomon.clock import Clock
from gnomon.fairness.ready_queue import Flow as FlowId
from gnomon.limits.holdings import Holding
from gnomon.limits.limiter import Bucket, Limiter, buckets
from gnomon.limits.needs import Needs
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE, Quotas
from gnomon.model.tasks.flow import Flow
from gnomon.notify.notification import CHANNEL_LIMIT, NOTIFIER_TENANT

_MOST_NEEDS = 50_000


class Limits(Protocol):
    """The limits of tenants: see gnomon.store.tenant_cache."""

    def limiters(self, tenant_id: str) -> Sequence[Limiter]: ...
    def quotas(self, tenant_id: str) -> Quotas: ...
    def on_change(self, told: Callable[[], None]) -> None: ...


class NeedsBook:
    """Keeps the buckets that this node holds something of, or needs."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.accounts: dict[Bucket, Holding] = {}
        self.known: dict[FlowId, Needs] = {}
        self.rated = False  # whether any of these needs starts
        self.era = 0  # grows whenever limits change
        self._limits = limits
        self._clock = clock
        self._rules: dict[str, tuple[Limiter, ...]] = {}

    def rules(self, tenant_id: str) -> tuple[Limiter, ...]:
        """All limiters of a tenant; its quota of executions is one of them."""
        rules = self._rules.get(tenant_id)
        if rules is None:
            rules = self._rules[tenant_id] = tuple(_rules(self._limits, tenant_id))
        return rules

    def of(self, number: FlowId, flow: Flow) -> Needs:
        """The needs of a flow's tasks."""
        needs = self.known.get(number)
        if needs is None:
            found = sorted(self._buckets(flow), key=lambda f: f[1])
            each = tuple(self._account(limiter, bucket) for limiter, bucket in found)
            needs = Needs(each, number[1], self.era)
            self.rated = self.rated or bool(needs.starts)
            if len(self.known) >= _MOST_NEEDS:
                self.known.clear()
            if number[1]:
                self.known[number] = needs
        return needs

    def change(self) -> list[Holding]:
        """Limits have changed; gives the buckets whose limiter is another, or gone."""
        self._rules.clear()
        self.known.clear()
        self.era += 1
        changed = []
        for account in self.accounts.values():
            rules = self.rules(account.bucket.tenant_id)
            rule = next((r for r in rules if r.name == account.bucket.limiter), None)
            if rule == account.limiter:
                continue
            if rule is not None:
                account.change(rule)
            changed.append(account)
        return changed

    def forget(self, accounts: Iterable[Holding]) -> None:
        for account in accounts:
            del self.accounts[account.bucket]
        self.known.clear()

    def _buckets(self, flow: Flow) -> list[tuple[Limiter, Bucket]]:
        found = buckets(self.rules(flow.tenant_id), flow)
        if flow.tenant_id == NOTIFIER_TENANT and flow.queue is not None:
            # It is held to the limits of the tenant that it is sent for, too.
            served = msgspec.structs.replace(flow, queue=None)
            found += buckets(self._limits.limiters(flow.queue), served)
        return found

    def _account(self, limiter: Limiter, bucket: Bucket) -> Holding:
        account = self.accounts.get(bucket)
        if account is None:
            now = self._clock.monotonic()
            account = self.accounts[bucket] = Holding(bucket, limiter, now)
        account.limiter = limiter
        return account


def _rules(limits: Limits, tenant_id: str) -> Iterator[Limiter]:
    if tenant_id == NOTIFIER_TENANT:
        yield CHANNEL_LIMIT
    yield from limits.limiters(tenant_id)
    quota = limits.quotas(tenant_id).executions_per_minute
    if quota is not None:
        yield Limiter(tenant_id=tenant_id, name=EXECUTIONS_PER_MINUTE, rate=quota, per_seconds=60.0)
