"""Backoff within its bounds whatever the policy, and Retry-After whatever the header."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.model.tasks.retry import (
    LONGEST_RETRY_AFTER,
    LONGEST_WAIT,
    Backoff,
    RetryPolicy,
    parse_retry_after,
    retry_delay,
)

NOW = datetime(1994, 11, 6, 8, 49, 0, tzinfo=UTC)

waits = st.floats(0, LONGEST_WAIT)
retries = st.integers(1, 10**6)
chances = st.floats(0, 1, exclude_max=True)
policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 1000),
    backoff=st.sampled_from(Backoff),
    base_seconds=waits,
    max_seconds=waits,
    jitter=st.booleans(),
)


@given(policies, retries, chances)
def test_a_delay_is_never_negative_and_never_above_the_maximum(
    policy: RetryPolicy, retry: int, chance: float
) -> None:
    assert 0 <= policy.delay(retry, chance) <= policy.bound(retry) <= policy.max_seconds


@given(policies, retries, retries)
def test_later_retries_are_never_bounded_lower(policy: RetryPolicy, one: int, two: int) -> None:
    assert policy.bound(min(one, two)) <= policy.bound(max(one, two))


@given(policies, retries, chances)
def test_jitter_spreads_over_everything_up_to_the_bound(
    policy: RetryPolicy, retry: int, chance: float
) -> None:
    steady = msgspec.structs.replace(policy, jitter=False)
    spread = msgspec.structs.replace(policy, jitter=True)
    assert steady.delay(retry, chance) == policy.bound(retry)
    assert spread.delay(retry, chance) == chance * policy.bound(retry)


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff.EXPONENTIAL, [2, 4, 8, 16, 20, 20]),
        (Backoff.LINEAR, [2, 4, 6, 8, 10, 12]),
        (Backoff.FIXED, [2, 2, 2, 2, 2, 2]),
    ],
)
def test_how_each_backoff_grows(backoff: Backoff, expected: list[float]) -> None:
    policy = RetryPolicy(backoff=backoff, base_seconds=2, max_seconds=20, jitter=False)
    assert [policy.delay(retry, 0.5) for retry in range(1, 7)] == expected


@given(policies)
def test_a_policy_survives_json(policy: RetryPolicy) -> None:
    assert msgspec.json.decode(msgspec.json.encode(policy), type=RetryPolicy) == policy


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retries": -1},
        {"max_retries": 1001},
        {"max_retries": 1.5},
        {"base_seconds": -0.1},
        {"base_seconds": float("nan")},
        {"max_seconds": float("inf")},
        {"max_seconds": LONGEST_WAIT + 1},
        {"backoff": "quadratic"},
        {"jitter": "full"},
        {"retries": 3},
    ],
    ids=str,
)
def test_refuses_a_policy_that_means_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        msgspec.convert(wrong, RetryPolicy)


@given(policies, retries, chances, st.none() | st.floats(0, 1e15))
def test_retry_after_is_a_lower_bound_up_to_a_day(
    policy: RetryPolicy, retry: int, chance: float, retry_after: float | None
) -> None:
    own = policy.delay(retry, chance)
    delay = retry_delay(policy, retry, chance, retry_after)
    assert delay >= own
    assert delay >= min(retry_after or 0.0, LONGEST_RETRY_AFTER)
    assert delay in (own, retry_after, LONGEST_RETRY_AFTER)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("-5", 0.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 37.0),
        ("Sun Nov  6 08:49:37 1994", 37.0),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("1e3", None),
        ("nan", None),
        ("9" * 5000, None),
        ("Sun, 31 Nov 1994 08:49:37 GMT", None),
        ("2026-01-01T00:00:00Z", None),
    ],
)
def test_reads_both_forms_of_retry_after(header: str, seconds: float | None) -> None:
    assert parse_retry_after(header, NOW) == seconds


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_header_is_too_strange(header: str) -> None:
    seconds = parse_retry_after(header, NOW)
    assert seconds is None or seconds >= 0


@given(st.integers(0, 10**9))
def test_a_date_is_read_as_the_seconds_until_it(ahead: int) -> None:
    moment = NOW + timedelta(seconds=ahead)
    assert parse_retry_after(f"{moment:%a, %d %b %Y %H:%M:%S} GMT", NOW) == ahead
