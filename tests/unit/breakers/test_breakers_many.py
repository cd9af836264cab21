"""Thousands of open breakers: tasks that have nothing to do with them do not pay for them."""

import time
from collections.abc import Sequence
from typing import cast
from uuid import UUID

from tests.unit.fairness.fair_entries import START, entry

from gnomon.breakers.breaker import Rule
from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.dispatch.breaker_check import BreakerCheck, BreakerRules
from gnomon.observe.events import nobody
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.tenancy.breakers import BreakerEvent, Circuit, NotedBreaker
from gnomon.store.postgres.dispatch.breakers import PostgresBreakers

AWAY = Outcome(OutcomeKind.FAILED, error="away", unreachable=True)
QUICK = BreakerRules(host=Rule(share=0.5, calls=1, pause=30.0), tenant=Rule(share=2.0))


class Told:
    """Nobody asks."""

    async def note(
        self,
        opened: Sequence[NotedBreaker],
        closed: Sequence[Circuit],
        events: Sequence[BreakerEvent],
    ) -> None:
        raise NotImplementedError


class World:
    def __init__(self, hosts: int) -> None:
        self.time = 0.0
        agenda = Agenda(FairQueue(), START, 100)
        clock = SystemClock(lambda: self.time)
        troubles = Troubles(clock, nobody)
        self.breakers = BreakerCheck(
            agenda, clock, cast("PostgresBreakers", Told()), nobody, troubles, QUICK
        )
        for number in range(hosts):
            self.fail(entry(number, flow=number + 1))

    def fail(self, of: Entry) -> None:
        self.breakers.called(Report(delivery(of), AWAY, 0.0, 0.0))

    def seconds(self) -> float:
        """That ends of tasks take, at best."""
        other = Report(delivery(entry(10**6, tenant="other", flow=7)))
        best = 1.0
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(10):
                self.breakers.ended(other)
                self.breakers.missed([other.delivery.key])
            best = min(best, time.perf_counter() - began)
        return best


def delivery(of: Entry) -> Delivery:
    return Delivery(
        key=of.key, fence=1, incarnation=UUID(int=1), attempt=1, retries_left=0, losses=0,
        target=HttpTarget(f"http://h{of.flow}.test/"), payload=None, payload_size=None,
        timeout_seconds=30, retry_policy=RetryPolicy(), task_type="test", lane=Lane.MEDIUM,
        scheduled_for=0.0, start_by=0.0, idempotency_key=None, expired=False, flow=of.flow,
    )  # fmt: skip


def test_tasks_of_others_do_not_pay_for_them() -> None:
    assert World(3000).seconds() < 50 * World(1).seconds()


def test_a_probe_that_was_not_made_is_made_by_the_next() -> None:
    world = World(2)
    first, second, stranger = entry(10, flow=1), entry(11, flow=1), entry(12, flow=2)
    admit = world.breakers.admit
    assert not admit(first)
    world.time = 31.0
    assert [admit(first), admit(second), admit(first), admit(stranger)] == [True, False, True, True]
    world.breakers.missed([first.key])
    assert admit(second)
    assert not admit(first)
    world.breakers.ended(Report(delivery(second)))
    assert admit(first)
    world.time = 100.0
    assert admit(second), "nobody waits for a probe for ever"
    world.breakers.ended(Report(delivery(first)))
    assert not admit(first), "the end of an older probe frees nothing"
    world.breakers.called(Report(delivery(second), AWAY, 0.0, 0.0))
    world.time = 131.0
    assert admit(first)
