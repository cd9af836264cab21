"""Values of a batch, by kind and by bucket."""

from bisect import bisect_left
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.insight.activity import DELAY_BOUNDS, DELAYS
from gnomon.observe.counts import buckets, by_kind


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    assert buckets(DELAY_BOUNDS, DELAY_BOUNDS) == [(place, 1) for place in range(DELAYS - 1)]
    assert buckets([-0.001], DELAY_BOUNDS) == [(0, 1)], "clocks may differ by a moment"
    assert buckets([301.0, 0.0011, 302.0], DELAY_BOUNDS) == [(1, 1), (DELAYS - 1, 2)]
    assert buckets([], DELAY_BOUNDS) == []


@given(st.lists(st.floats(-1, 400) | st.sampled_from(DELAY_BOUNDS)))
def test_each_value_is_in_one_bucket(values: list[float]) -> None:
    expected = Counter(bisect_left(DELAY_BOUNDS, value) for value in values)
    assert buckets(values, DELAY_BOUNDS) == sorted(expected.items())


def test_values_are_told_apart_by_every_column() -> None:
    assert by_kind((["a", "a"], [1, 1]), [0.5, 0.7]) == {("a", 1): [0.5, 0.7]}
    columns = ["a", "b", "a", "a"], [1, 1, 2, 1]
    assert by_kind(columns, [0.1, 0.2, 0.3, 0.4]) == {
        ("a", 1): [0.1, 0.4], ("b", 1): [0.2], ("a", 2): [0.3],
    }  # fmt: skip
    assert by_kind(([], []), []) == {}
