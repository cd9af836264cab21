"""The lanes of a tenant: every one gets its share, and what has aged gets more."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fairness.fair_entries import at, entry, number_of

from gnomon.fairness import FairQueue, LaneRound
from gnomon.fairness.lanes import DEFAULT_WEIGHTS
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.dispatch import Entry

AGING = timedelta(seconds=60)
lanes = st.sampled_from(Lane)
weightings = st.fixed_dictionaries({lane: st.integers(1, 7) for lane in Lane})


def queue(weights: dict[Lane, int] | None = None) -> FairQueue[Entry]:
    return FairQueue(LaneRound(weights or DEFAULT_WEIGHTS), AGING)


def filled(weights: dict[Lane, int], present: set[Lane], each: int) -> FairQueue[Entry]:
    made = queue(weights)
    for number in range(each):
        for lane in present:
            made.put_all([entry(number, lane=lane)])
    return made


@settings(deadline=None)
@given(weightings, st.sets(lanes, min_size=1), st.sampled_from([0, 60, 3600]))
def test_busy_lanes_share_every_round_exactly_by_weight(
    weights: dict[Lane, int], present: set[Lane], now: float
) -> None:
    share = {lane: weights[lane] for lane in present}
    turns = sum(share.values())
    taken = [e.lane for e in filled(weights, present, 4 * 7).take(4 * turns, at(now))]
    for start in range(3 * turns):
        assert Counter(taken[start : start + turns]) == share


@settings(deadline=None)
@given(
    weightings,
    st.lists(st.lists(st.tuples(lanes, st.booleans()), max_size=20) | st.integers(0, 20)),
)
def test_no_lane_waits_for_more_than_four_rounds(
    weights: dict[Lane, int], steps: list[list[tuple[Lane, bool]] | int]
) -> None:
    ready = queue(weights)
    waiting: Counter[Lane] = Counter()
    passed_over = dict.fromkeys(Lane, 0)
    for step in [*steps, 1000]:
        if isinstance(step, list):
            for lane, is_aged in step:
                ready.put_all([entry(0, lane=lane, due=0 if is_aged else 100)])
                waiting[lane] += 1
            continue
        for taken in ready.take(step, at(100)):
            waiting[taken.lane] -= 1
            for other in Lane:
                served = other == taken.lane or not waiting[other]
                passed_over[other] = 0 if served else passed_over[other] + 1
                assert passed_over[other] < 4 * sum(weights.values())
    assert not any(waiting.values())


@given(st.lists(lanes, max_size=30), st.lists(st.sampled_from([0, 100]), max_size=30))
def test_an_aged_entry_waits_for_twice_the_aged_ones_before_it_at_most(
    fresh: list[Lane], ahead: list[int]
) -> None:
    """Whatever comes into the other lanes."""
    ready = queue()
    for number in range(100):
        for lane in set(fresh) - {Lane.LOW}:
            ready.put_all([entry(number, lane=lane, due=100)])
    for due in sorted(ahead):
        ready.put_all([entry(-1 % 2**32, lane=Lane.LOW, due=due)])
    aged = ahead.count(0)
    taken = ready.take(1000, at(100))
    places = [place for place, e in enumerate(taken) if e.lane is Lane.LOW and e.due_at == at(0)]
    assert all(place <= 2 * before + 1 for before, place in enumerate(places))
    assert len(places) == aged


def test_aged_entries_get_every_second_turn_beside_their_share() -> None:
    ready = queue()
    for number in range(50):
        ready.put_all([entry(number, lane=Lane.LOW, due=0)])
        ready.put_all([entry(number, lane=Lane.MEDIUM, due=0)])
        ready.put_all([entry(number, lane=Lane.CRITICAL, due=100)])
        ready.put_all([entry(number, lane=Lane.HIGH, due=100)])
    taken = [e.lane for e in ready.take(60, at(100))]
    share = {Lane.CRITICAL: 12, Lane.HIGH: 9, Lane.MEDIUM: 6, Lane.LOW: 3}
    assert Counter(taken[1::2]) == share
    assert Counter(taken[0::2]) == {Lane.MEDIUM: 20, Lane.LOW: 10}


def test_what_is_new_gets_no_more_because_others_have_aged() -> None:
    ready = queue()
    for number in range(100):
        ready.put_all([entry(number, lane=Lane.LOW, due=100)])
        ready.put_all([entry(number, lane=Lane.CRITICAL, due=0)])
    taken = [e.lane for e in ready.take(100, at(100))]
    assert Counter(taken) == {Lane.CRITICAL: 90, Lane.LOW: 10}


def test_a_lane_is_late_when_its_head_has_waited_for_half_the_bound_and_not_before() -> None:
    for now, first in ((129.9, Lane.CRITICAL), (130.0, Lane.LOW)):
        ready = queue()
        ready.put_all([entry(1, lane=Lane.LOW, due=100)])
        ready.put_all([entry(2, lane=Lane.CRITICAL, due=110)])
        assert [e.lane for e in ready.take(1, at(now))] == [first]


def test_a_critical_task_waits_for_two_others_at_most() -> None:
    taken = filled(dict(DEFAULT_WEIGHTS), set(Lane), 100).take(100, at(0))
    turns = [turn for turn, e in enumerate(taken) if e.lane is Lane.CRITICAL]
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 3


def test_the_only_busy_lane_gets_everything() -> None:
    ready = filled(dict(DEFAULT_WEIGHTS), {Lane.LOW}, 50)
    assert [number_of(e) for e in ready.take(100, at(0))] == list(range(50))
    assert ready.take(1, at(0)) == []


@pytest.mark.parametrize("weights", [{**DEFAULT_WEIGHTS, Lane.LOW: 0}, {Lane.HIGH: 1}])
def test_refuses_weights_that_would_starve_a_lane(weights: dict[Lane, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LaneRound(weights)


def test_a_flow_that_is_let_in_and_refused_again_keeps_its_order_and_holds_nobody_up() -> None:
    ready = queue()
    for number in range(20):
        ready.put_all([entry(number, flow=1 + number % 2)])
    blocked = {1}

    def admit(e: Entry) -> bool:
        return e.flow not in blocked

    assert [number_of(e) for e in ready.take(3, at(0), admit)] == [1, 3, 5]
    ready.put_all([entry(20, flow=1)])
    assert len(ready) == 7
    assert ready.let_in([("acme", 1)])
    assert len(ready) == 18
    assert [number_of(e) for e in ready.take(2, at(0), admit)] == [7, 9]
    blocked.clear()
    assert [number_of(e) for e in ready.take(2, at(0), admit)] == [11, 13]
    assert ready.let_in()
    assert not ready.let_in()
    rest = [number_of(e) for e in ready.take(99, at(0), admit)]
    assert [n for n in rest if n % 2 == 0] == list(range(0, 21, 2))
    assert ready.waiting("acme", Lane.MEDIUM, 1) == 0
