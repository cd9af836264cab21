"""So many a second, some at once, and no more memory than that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.access.token_buckets import MOST_DEBT_SECONDS, TokenBuckets

RATE, BURST = 10.0, 20.0


def buckets(most: int = 100) -> TokenBuckets:
    return TokenBuckets(RATE, BURST, most)


def test_the_burst_is_there_at_once_and_then_the_rate() -> None:
    made = buckets()
    assert [made.take("a", 5.0) for _ in range(20)] == [0.0] * 20
    assert made.take("a", 5.0) == pytest.approx(0.1)
    assert made.take("b", 5.0) == 0.0, "each has its own"
    assert made.take("a", 5.1) == 0.0
    assert made.take("a", 5.1) == pytest.approx(0.1)


def test_a_charge_is_owed_but_not_for_long() -> None:
    made = buckets()
    made.charge("a", 0.0, 25.0)
    assert made.take("a", 0.0) == pytest.approx(0.6)
    made.charge("a", 0.0, 1e9)
    assert made.take("a", 0.0) == pytest.approx(MOST_DEBT_SECONDS + 0.1)
    assert made.take("a", MOST_DEBT_SECONDS + 0.1) == 0.0


def test_what_is_given_back_is_there_again_and_not_more_than_that() -> None:
    made = buckets()
    for _ in range(20):
        made.take("a", 0.0)
    made.charge("a", 0.0, -1.0)
    assert made.take("a", 0.0) == 0.0
    assert made.take("a", 0.0) > 0
    made.charge("b", 0.0, -5.0)
    assert sum(made.take("b", 0.0) == 0.0 for _ in range(30)) == 20


def test_many_keys_take_the_memory_of_a_few() -> None:
    made = buckets(most=1_000)
    for number in range(100_000):
        made.take(number, 0.0)
        if number % 500 == 0:
            made.charge("used", 0.0, 1.0)
    assert len(made) == 1_000
    assert made.take("used", 0.0) > 0, "what is used is not forgotten"


@given(st.lists(st.floats(0.0, 3.0), max_size=60))
def test_never_more_than_the_burst_and_the_rate(pauses: list[float]) -> None:
    made, now, taken = buckets(), 0.0, 0
    for pause in pauses:
        now += pause
        while made.take("a", now) == 0.0:
            taken += 1
        assert taken <= BURST + RATE * now + 1e-6
