"""Permits of a node without a store: tests set the limits, the time, and what is granted."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from tests.unit.fairness.fair_entries import START, entry

from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.limits.exchange import PermitGrant, Starts, Told
from gnomon.limits.holdings import Holding, Wish
from gnomon.limits.limiter import Bucket, Limiter
from gnomon.limits.store_time import StoreTime
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.permits import Permits
from gnomon.node.held_tasks import HeldTasks
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Entry


class Known:
    """Limits that a test sets."""

    def __init__(self, *limiters: Limiter, quota: int | None = None) -> None:
        self.found: Sequence[Limiter] = limiters
        self.quota = quota
        self.told: list[Callable[[], None]] = []

    def limiters(self, tenant_id: str) -> Sequence[Limiter]:
        return self.found if tenant_id == "acme" else ()

    def quotas(self, tenant_id: str) -> Quotas:
        return Quotas(executions_per_minute=self.quota if tenant_id == "acme" else None)

    def on_change(self, told: Callable[[], None]) -> None:
        self.told.append(told)

    def change(self, *limiters: Limiter) -> None:
        self.found = limiters
        for told in self.told:
            told()


class World:
    def __init__(self, *limiters: Limiter, quota: int | None = None) -> None:
        self.time = 0.0
        self.known = Known(*limiters, quota=quota)
        self.woken = 0
        self.told: list[Told] = []
        self.agenda = Agenda(FairQueue(), START, 100, self._wake)
        clock = SystemClock(lambda: self.time)
        self.held = HeldTasks(SuspectRoom(1, 10))
        self.permits = Permits(self.known, self.agenda, self.held, clock)

    def _wake(self) -> None:
        self.woken += 1

    def learn(self, number: int, **flow: str) -> None:
        """Claim something of a flow once, so that it is known."""
        self.permits.claimed(delivery(entry(999, flow=number), **flow))

    def give(
        self, bucket: str, permits: int = 0, starts: int = 0, key: str = "", later: float = 0.0
    ) -> Holding:
        """Starts are good for a second, or as long as is asked for, or the second after it."""
        account = self.permits.accounts[Bucket("acme", bucket, key)]
        ask = account.ask(Wish(100, stopping=False), self.time)
        self.told += ask.told
        time, now = StoreTime(), START + timedelta(seconds=self.time)
        time.heard(now, self.time, self.time)
        since = now + timedelta(seconds=later)
        until = since + timedelta(seconds=max(1.0, ask.seconds))
        given = [Starts(starts, since, until)] if starts else []
        grant = PermitGrant(account.bucket, now, permits, permits, contended=False, starts=given)
        account.granted(grant, ask, time, self.time)
        self.permits.let_in(account)
        return account

    def made(self) -> list[tuple[int, float]]:
        """How many starts were told as made by when."""
        made = [(told.starts, told.at) for told in self.told if told.at is not None]
        return [(starts, round((at - START).total_seconds(), 2)) for starts, at in made]

    def admit(self, *entries: Entry) -> list[bool]:
        return [self.permits.admit(each) for each in entries]


def delivery(
    of: Entry, task_type: str = "test", limit_keys: str | None = None, queue: str | None = None
) -> Delivery:
    return Delivery(
        key=of.key, fence=1, incarnation=UUID(int=1), attempt=1, retries_left=0, losses=0,
        target=PythonTarget("f"), payload=None, payload_size=None, timeout_seconds=30,
        retry_policy=RetryPolicy(), task_type=task_type, lane=Lane.MEDIUM, scheduled_for=0.0,
        start_by=0.0, idempotency_key=None, expired=False, queue=queue, limit_keys=limit_keys,
        flow=of.flow,
    )  # fmt: skip
