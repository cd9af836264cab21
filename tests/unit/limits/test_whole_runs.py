"""What is taken, asked and returned for many tasks at once comes to the same as for one by one."""

from datetime import timedelta
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fairness.fair_entries import START, entry, number_of
from tests.unit.limits.permit_world import World, delivery

from gnomon.limits.limiter import Bucket, Limiter
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.tasks.priority import Lane
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import Report
from gnomon.store.ports.dispatch import Entry

TYPES = {1: "mail", 2: "mail", 3: "print", 4: "free"}
LIMITERS = (
    Limiter(tenant_id="acme", name="all", concurrency=10_000, task_type="mail"),
    Limiter(tenant_id="acme", name="many", concurrency=10_000, rate=10_000, task_type="print"),
    Limiter(tenant_id="acme", name="starts", rate=10_000, task_type="mail"),
)
NAMES = [limiter.name for limiter in LIMITERS]

few_or_many = st.integers(0, 60)
some_lanes = st.sampled_from([(Lane.MEDIUM,), (Lane.LOW, Lane.MEDIUM)])
some_flows = st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3)
puts = st.tuples(st.just("put"), some_flows, few_or_many, some_lanes)
takes = st.tuples(st.just("take"), few_or_many)
grants = st.tuples(st.just("give"), st.sampled_from(NAMES), few_or_many, few_or_many)
waits = st.tuples(st.just("wait"), st.sampled_from([0.1, 0.5, 1.0]))
ends = st.tuples(st.sampled_from(["end", "miss", "again", "doubt"]), few_or_many)
changes = st.tuples(st.just("change"), st.integers(0, len(LIMITERS)))
steps = st.lists(puts | takes | grants | waits | ends | changes, max_size=40)


class Side(World):
    """A node that is asked about many at once, or about each."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__(*LIMITERS)
        self.whole = whole
        self.checks = StartChecks([self.permits])
        self.chosen: list[Entry] = []
        self.told_apart: object = None  # which of the last ones were refused, and called
        self.runs = 0  # that were admitted together
        for flow, task_type in TYPES.items():
            self.learn(flow, task_type=task_type)

    def put(self, entries: list[Entry]) -> None:
        self.agenda.add(entries)
        self.agenda.advance(START + timedelta(seconds=10))

    def take(self, most: int) -> list[Entry]:
        checks, places = self.checks, SuspectRoom(1, 1)
        if self.whole:
            at_once = checks.admitting_at_once()

            def counted(*asked: object) -> int:
                found = at_once(*asked)  # type: ignore[arg-type]
                self.runs += bool(found)
                return found

            taken = self.agenda.take(most, places, checks.admitting(), checks.admits_all, counted)
        else:
            taken = self.agenda.take(most, places, checks.admitting(), checks.admits_all)
        taken = self.agenda.once(taken)
        deliveries = [delivery(each, task_type=TYPES[each.flow]) for each in taken]
        if self.whole:
            refused = self.checks.refused(deliveries)
        else:
            refused = {d.key for d in deliveries if not self.permits.claimed(d)}
        called = [d for d in deliveries[::2] if d.key not in refused and self.permits.may_call(d)]
        for each in called:
            self.permits.called(Report(each, Outcome(OutcomeKind.SUCCEEDED)))
        self.told_apart = refused, [each.key for each in called]
        self.chosen += taken
        return taken

    def leave(self, how: str, number: int) -> None:
        gone, self.chosen = self.chosen[:number], self.chosen[number:]
        if how == "doubt":  # these are chosen again, with what they have taken
            self.agenda.put_back(gone)
            return
        self.agenda.ended_all((e.key.tenant_id, e.lane, 0.1) for e in gone)
        if how == "miss":
            self.permits.missed([e.key for e in gone])
            return
        outcome = Outcome(OutcomeKind.SUCCEEDED) if how == "end" else None
        reports = [Report(delivery(e, task_type=TYPES[e.flow]), outcome) for e in gone]
        if self.whole:
            self.checks.ended(reports)
        else:
            for report in reports:
                self.permits.ended(report)

    def state(self) -> object:
        accounts = {
            bucket: (
                account.used, account.allowed, account.touched, account.refused, set(account.flows),
                [(batch.left, batch.low) for batch in account.batches],
            )
            for bucket, account in self.permits.accounts.items()
        }  # fmt: skip
        noted = [{a.bucket for a in group} for group in (self.permits.hot, self.permits.short)]
        return accounts, noted, self.told_apart, self.permits.unclaimed(), self.agenda.depths()


def both_do(sides: tuple[Side, Side], step: tuple[object, ...], number: int) -> None:
    answers = []
    for side in sides:
        match step:
            case ("put", list(flows), int(count), tuple(lanes)):
                turns = zip(range(count), cycle(flows), cycle(lanes), strict=False)
                side.put([entry(number + n, lane=lane, flow=flow) for n, flow, lane in turns])
            case ("take", int(most)):
                answers.append([number_of(each) for each in side.take(most)])
            case ("give", str(name), int(permits), int(starts)):
                if any(bucket.limiter == name for bucket in side.permits.accounts):
                    side.give(name, permits=permits, starts=starts)
            case ("wait", float(seconds)):
                side.time += seconds
            case ("change", int(first)):
                side.known.change(*LIMITERS[first:])
            case (str(how), int(count)):
                side.leave(how, count)
    assert not answers or answers[0] == answers[1]
    assert sides[0].state() == sides[1].state()


def warm(sides: tuple[Side, Side]) -> None:
    """Something of every bucket is in hand, and nothing waits."""
    in_hand = [("give", name, 60, 100) for name in NAMES]
    for step in (("put", sorted(TYPES), 4, (Lane.MEDIUM,)), ("take", 4), *in_hand, ("take", 4)):
        both_do(sides, step, 1)
    assert len(sides[0].chosen) == 4


@settings(deadline=None)
@given(steps)
def test_a_run_takes_and_returns_what_its_tasks_would_one_by_one(
    steps: list[tuple[object, ...]],
) -> None:
    sides = Side(whole=True), Side(whole=False)
    warm(sides)
    for number, step in enumerate([*steps, ("take", 1000)], 1):
        both_do(sides, step, 100 * number)


@pytest.mark.parametrize("how", ["end", "miss", "again", "doubt"])
@pytest.mark.parametrize("flows", [[1], [3], [1, 3], [1, 2, 4], [4]])
def test_many_are_admitted_together_while_there_is_enough(flows: list[int], how: str) -> None:
    sides = Side(whole=True), Side(whole=False)
    warm(sides)
    for number, step in enumerate((
        ("put", flows, 50, (Lane.MEDIUM,)), ("take", 40), (how, 30), ("take", 60),
        ("put", flows, 50, (Lane.MEDIUM,)), ("take", 100), (how, 1000), ("take", 1000),
    ), 1):  # fmt: skip
        both_do(sides, step, 100 * number)
    assert sides[0].runs


@pytest.mark.parametrize(("permits", "starts"), [(6, 100), (100, 6)])
def test_no_run_takes_more_than_there_is_of_what_its_first_does_not_need(
    permits: int, starts: int
) -> None:
    side = Side(whole=True)
    side.put([entry(1, flow=3)])
    side.take(1)
    side.give("many", permits, starts)
    assert len(side.take(1)) == 1
    side.put([entry(n, flow=(4, 3)[n % 2]) for n in range(2, 102)])
    assert [each.flow for each in side.take(100)].count(3) == 5
    assert side.permits.accounts[Bucket("acme", "many")].used == 6


def test_a_run_ends_where_a_limit_does() -> None:
    side = Side(whole=True)
    side.put([entry(n, flow=1) for n in range(1, 101)])
    side.take(100)
    side.give("all", permits=80)
    side.give("starts", starts=31)
    assert len(side.take(1)) == 1  # that was refused before
    assert len(side.take(100)) == 30
    assert side.runs == 1
    side.give("starts", starts=90)
    assert len(side.take(1)) == 1
    assert len(side.take(100)) == 48
    assert side.runs == 2
    assert side.permits.accounts[Bucket("acme", "all")].used == 80


def test_more_starts_are_asked_for_once_a_run_leaves_few() -> None:
    side = Side(whole=True)
    side.put([entry(1, flow=3)])
    side.take(1)
    account = side.give("many", permits=100, starts=60)
    assert len(side.take(1)) == 1
    side.permits.hot.clear()
    side.put([entry(n, flow=3) for n in range(2, 22)])
    assert len(side.take(100)) == 20
    assert side.runs == 1
    assert side.permits.hot == {account}
