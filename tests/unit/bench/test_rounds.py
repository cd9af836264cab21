"""Turns are fair, and a handful of ratios says no more than it can."""

import pytest
from bench.compare import QUANTITIES, comparisons, verdict
from bench.rounds import Interval, median_interval, summary, turns
from hypothesis import given
from hypothesis import strategies as st


def test_two_contenders_take_turns_at_being_first() -> None:
    assert turns(["a", "b"], 4) == [["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]]


@given(st.integers(1, 9), st.integers(1, 20))
def test_every_round_has_every_contender_once(contenders: int, rounds: int) -> None:
    names = list(range(contenders))
    found = turns(names, rounds)
    assert len(found) == rounds
    assert all(sorted(order) == names for order in found)


def test_nobody_is_always_first_nor_always_behind_the_same_neighbour() -> None:
    found = turns(["a", "b", "c", "d"], 3)
    assert len({order[0] for order in found}) == 3
    before_c = {order[order.index("c") - 1] if order[0] != "c" else None for order in found}
    assert len(before_c) > 1


def test_a_summary_gives_median_and_spread() -> None:
    found = summary([90.0, 100.0, 120.0])
    assert (found.median, found.low, found.high, found.rounds) == (100.0, 90.0, 120.0, 3)
    assert found.spread == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("count", "low", "high", "confidence"),
    [(1, 0, 0, 0.0), (3, 0, 2, 0.75), (6, 0, 5, 0.969), (10, 1, 8, 0.979), (20, 5, 14, 0.959)],
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(
    count: int, low: int, high: int, confidence: float
) -> None:
    found = median_interval([float(value) for value in range(count)][::-1])
    assert (found.low, found.high) == (low, high)
    assert found.confidence == pytest.approx(confidence, abs=0.001)


def test_a_lower_processor_time_is_better_and_a_lower_rate_worse() -> None:
    lower, around = Interval(0.8, 0.9, 0.95), Interval(0.9, 1.1, 0.95)
    assert verdict(lower, QUANTITIES["drain_cpu_node"]) == "better"
    assert verdict(lower, QUANTITIES["drain"]) == "worse"
    assert verdict(around, QUANTITIES["drain"]) == "no difference"
    assert verdict(Interval(0.8, 0.9, 0.75), QUANTITIES["drain"]) == "too few pairs"


def test_ratios_are_taken_within_pairs() -> None:
    ours = [{"drain": 100.0}, {"drain": 10.0}, {"drain": 1000.0, "sustained": 5.0}]
    theirs = [{"drain": 50.0}, {"drain": 5.0}, {"drain": 500.0}]
    (found,) = comparisons(ours, theirs)
    assert (found.name, found.ratio) == ("drain", 2.0)
    assert (found.interval.low, found.interval.high) == (2.0, 2.0)
