"""Buckets of delays, and percentiles of them."""

import pytest

from gnomon.model.insight.activity import DELAYS, Counts, percentile


def delays(**places: int) -> list[int]:
    return [places.get(f"b{place}", 0) for place in range(DELAYS)]


@pytest.mark.parametrize(
    ("counts", "part", "expected"),
    [
        (delays(), 0.5, None),
        (delays(b0=1), 0.5, 0.0005),
        (delays(b0=100), 0.99, 0.00099),
        (delays(b0=50, b9=50), 0.5, 0.001),
        (delays(b0=50, b9=50), 0.75, 0.75),
        (delays(b0=98, b16=2), 0.99, 300.0),
        (delays(b3=1, b16=1), 0.5, 0.01),
    ],
)
def test_percentiles_lie_within_their_bucket(
    counts: list[int], part: float, expected: float | None
) -> None:
    found = percentile(counts, part)
    assert found == (None if expected is None else pytest.approx(expected))


def test_what_is_left_is_never_negative() -> None:
    whole, named = Counts(started=2, seconds=1.0), Counts(started=3, seconds=1.5)
    whole.delays[0], named.delays[0] = 2, 3
    left = whole.less(named)
    assert (left.started, left.seconds, left.delays[0]) == (0, 0.0, 0)
    whole.add(named)
    assert (whole.started, whole.seconds, whole.delays[0]) == (5, 2.5, 5)
