"""The ready queue: what goes in comes out once, in order, and every lane gets its share."""

from collections import Counter, deque
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.fair import ReadyQueue, WeightedLanes
from gnomon.fair.lanes import DEFAULT_WEIGHTS
from gnomon.model.lane import Lane

Entry = tuple[Lane, int]

lanes = st.sampled_from(Lane)
weightings = st.fixed_dictionaries({lane: st.integers(1, 7) for lane in Lane})


def filled(weights: dict[Lane, int], present: set[Lane], each: int) -> WeightedLanes[Entry]:
    queue: WeightedLanes[Entry] = WeightedLanes(weights)
    for number in range(each):
        for lane in present:
            queue.put(lane, "acme", (lane, number))
    return queue


@settings(deadline=None)
@given(weightings, st.sets(lanes, min_size=1))
def test_busy_lanes_share_every_round_exactly_by_weight(
    weights: dict[Lane, int], present: set[Lane]
) -> None:
    share = {lane: weights[lane] for lane in present}
    turns = sum(share.values())
    taken = [lane for lane, _ in filled(weights, present, 4 * 7).take(4 * turns)]
    for start in range(3 * turns):
        assert Counter(taken[start : start + turns]) == share


@settings(deadline=None)
@given(weightings, st.lists(st.lists(lanes, max_size=20) | st.integers(0, 20), max_size=30))
def test_conserves_entries_keeps_lanes_in_order_and_starves_none(
    weights: dict[Lane, int], steps: list[list[Lane] | int]
) -> None:
    queue: ReadyQueue[Entry] = WeightedLanes(weights)
    waiting: dict[Lane, deque[Entry]] = {lane: deque() for lane in Lane}
    passed_over = dict.fromkeys(Lane, 0)
    longest_wait = sum(weights.values())
    number = 0
    for step in [*steps, 10_000]:
        if isinstance(step, list):
            for lane in step:
                queue.put(lane, "acme", (lane, number))
                waiting[lane].append((lane, number))
                number += 1
            continue
        held = sum(map(len, waiting.values()))
        taken = queue.take(step)
        assert len(taken) == min(step, held)
        for entry in taken:
            lane = entry[0]
            assert entry == waiting[lane].popleft()
            for other in Lane:
                passed_over[other] += 1 if waiting[other] and other != lane else -passed_over[other]
                assert passed_over[other] < longest_wait
        assert len(queue) == held - len(taken)
    assert not any(waiting.values())


@settings(deadline=None)
@given(st.lists(lanes, max_size=60), st.lists(st.integers(0, 9), max_size=30))
def test_the_order_does_not_depend_on_how_takes_are_cut(
    entries: list[Lane], cuts: list[int]
) -> None:
    whole: WeightedLanes[Entry] = WeightedLanes()
    pieces: WeightedLanes[Entry] = WeightedLanes()
    for number, lane in enumerate(entries):
        whole.put(lane, "acme", (lane, number))
        pieces.put(lane, "acme", (lane, number))
    taken = [entry for cut in cuts for entry in pieces.take(cut)]
    assert whole.take(sum(cuts)) == taken


def test_a_critical_task_waits_for_two_others_at_most() -> None:
    taken = filled(dict(DEFAULT_WEIGHTS), set(Lane), 100).take(100)
    turns = [turn for turn, (lane, _) in enumerate(taken) if lane is Lane.CRITICAL]
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 3


def test_the_only_busy_lane_gets_everything() -> None:
    queue = filled(dict(DEFAULT_WEIGHTS), {Lane.LOW}, 50)
    assert queue.take(100) == [(Lane.LOW, number) for number in range(50)]
    assert queue.take(1) == []


@pytest.mark.parametrize("weights", [{**DEFAULT_WEIGHTS, Lane.LOW: 0}, {Lane.HIGH: 1}])
def test_refuses_weights_that_would_starve_a_lane(weights: dict[Lane, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        WeightedLanes(weights)
