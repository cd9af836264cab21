"""Which outcomes a breaker counts, as a failure or as a success, and which say nothing."""

from typing import cast
from uuid import UUID

import msgspec
import pytest
from tests.unit.breakers.test_breakers_many import Told, delivery
from tests.unit.fairness.fair_entries import START, entry

from gnomon.breakers.breaker import Rule
from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import NotificationTarget
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.dispatch.breaker_check import BreakerCheck, BreakerRules
from gnomon.observe.events import BreakerOpened, Event, nobody
from gnomon.pipe.envelope import Report
from gnomon.store.postgres.dispatch.breakers import PostgresBreakers

AWAY = Outcome(OutcomeKind.FAILED, error="away", unreachable=True)
NEVER = Rule(share=2.0)
# Open on the second call that counts, whether or not it fails, once one has failed.
SECOND = Rule(share=0.4, calls=2, pause=30.0)
# Open on the second failure, if nothing succeeded.
BOTH = Rule(share=0.6, calls=2, pause=30.0)


def answered(status: int) -> Outcome:
    return Outcome(OutcomeKind.FAILED, error="no", response_status=status)


FAILURES = [AWAY, Outcome(OutcomeKind.TIMED_OUT), answered(500), answered(503), answered(429)]
SUCCESSES = [Outcome(OutcomeKind.SUCCEEDED), Outcome(OutcomeKind.SNOOZED), answered(404)]
SAYING_NOTHING = [
    Outcome(OutcomeKind.CANCELLED),
    Outcome(OutcomeKind.PREEMPTED),
    Outcome(OutcomeKind.LOST),
    Outcome(OutcomeKind.FAILED, error="internal error"),  # on our side: no word of the host
    None,
]


class World:
    """Breakers with these rules, and what they told."""

    def __init__(self, rules: BreakerRules) -> None:
        self.time = 0.0
        self.events: list[Event] = []
        clock = SystemClock(lambda: self.time)
        self.breakers = BreakerCheck(
            Agenda(FairQueue(), START, 100), clock, cast("PostgresBreakers", Told()),
            self.events.append, Troubles(clock, nobody), rules,
        )  # fmt: skip

    def opens_after(self, *outcomes: Outcome | None) -> bool:
        for number, outcome in enumerate(outcomes):
            report = Report(delivery(entry(number, flow=1)), outcome, 0.0, 0.0)
            self.breakers.called(report)
            self.breakers.ended(report)
        return any(isinstance(event, BreakerOpened) for event in self.events)


def host(rule: Rule) -> World:
    return World(BreakerRules(host=rule, tenant=NEVER))


def tenant(rule: Rule) -> World:
    return World(BreakerRules(host=NEVER, tenant=rule))


@pytest.mark.parametrize("outcome", FAILURES)
def test_failures(outcome: Outcome) -> None:
    assert host(BOTH).opens_after(AWAY, outcome)
    assert tenant(BOTH).opens_after(AWAY, outcome)


@pytest.mark.parametrize("outcome", SUCCESSES)
def test_a_host_that_answers_works(outcome: Outcome) -> None:
    assert host(SECOND).opens_after(AWAY, outcome), "it counts"
    assert not host(BOTH).opens_after(AWAY, outcome), "not as a failure"


@pytest.mark.parametrize("outcome", SAYING_NOTHING)
def test_what_says_nothing_about_a_host_is_not_counted(outcome: Outcome | None) -> None:
    assert not host(SECOND).opens_after(AWAY, outcome)
    assert not host(SECOND).opens_after(AWAY, *[outcome] * 10)
    assert host(SECOND).opens_after(AWAY, outcome, AWAY)


@pytest.mark.parametrize("outcome", [*SAYING_NOTHING[:3], None])
def test_what_says_nothing_about_a_tenant_is_not_counted(outcome: Outcome | None) -> None:
    assert not tenant(SECOND).opens_after(AWAY, *[outcome] * 10)


@pytest.mark.parametrize("outcome", SAYING_NOTHING)
def test_a_probe_that_says_nothing_leaves_the_place_to_another(outcome: Outcome | None) -> None:
    world = host(BOTH)
    assert world.opens_after(AWAY, AWAY)
    world.time = 31.0
    probe, other = entry(10, flow=1), entry(11, flow=1)
    assert [world.breakers.admit(probe), world.breakers.admit(other)] == [True, False]
    world.opens_after(outcome)
    report = Report(delivery(probe), outcome, 0.0, 0.0)
    world.breakers.called(report)
    world.breakers.ended(report)
    assert len(world.events) == 1, "it is still open"
    assert world.breakers.admit(other)


def test_a_subscription_that_cannot_be_told_keeps_no_other_waiting() -> None:
    """All notifications are of one tenant, and many of one host."""
    breakers = World(BreakerRules(host=BOTH, tenant=BOTH)).breakers
    bad, good = (
        msgspec.structs.replace(
            delivery(entry(number, flow=number)),
            target=NotificationTarget(
                on_behalf_of=f"t{number}", host="smtp", subscription_id=UUID(int=number)
            ),
        )
        for number in (1, 2)
    )
    for _ in range(3):
        breakers.called(Report(bad, answered(550), 0.0, 0.0))
    assert not breakers.may_call(bad)
    assert breakers.may_call(good)
    assert breakers.admit(entry(3, flow=2))


def test_breakers_are_free_for_what_is_not_known_while_none_is_open() -> None:
    world = host(BOTH)
    assert world.breakers.is_free("anybody")
    assert world.opens_after(AWAY, AWAY)
    assert not world.breakers.is_free("anybody")
