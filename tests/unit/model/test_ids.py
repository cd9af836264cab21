"""Task ids: valid UUIDv7, in order of creation, and cut by moment without a remainder."""

import uuid
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.ids import created_at, ids_with_prefix, lowest_id, uuid7

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

millis = st.integers(0, (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1))
entropies = st.integers(0, (1 << 74) - 1)


@given(millis, entropies)
def test_has_the_version_and_variant_of_rfc_9562(at: int, entropy: int) -> None:
    made = uuid7(at, entropy)
    assert made.version == 7
    assert made.variant == uuid.RFC_4122


@given(millis, entropies, millis, entropies)
def test_is_ordered_by_moment_then_entropy(at: int, entropy: int, at2: int, entropy2: int) -> None:
    first, second = uuid7(at, entropy), uuid7(at2, entropy2)
    assert (first < second) == ((at, entropy) < (at2, entropy2))
    assert (first.bytes < second.bytes) == (first < second)


@given(millis, entropies)
def test_tells_when_it_was_made_to_the_millisecond(at: int, entropy: int) -> None:
    assert created_at(uuid7(at, entropy)) == EPOCH + timedelta(milliseconds=at)


@given(millis, entropies, millis, st.integers(0, 999))
def test_the_lowest_id_parts_earlier_ids_from_the_rest(
    at: int, entropy: int, bound: int, micros: int
) -> None:
    lowest = lowest_id(EPOCH + timedelta(milliseconds=bound, microseconds=micros))
    assert (uuid7(at, entropy) < lowest) == (at < bound)


def test_the_beginning_of_an_id_is_a_range() -> None:
    whole = "0199f3a2-7c1e-7d43-a7f5-0c6a53a9d1f0"
    for length in (1, 8, 9, 18, 36):
        first, last = ids_with_prefix(whole[:length].upper())
        assert first <= UUID(whole) <= last
        assert str(first).startswith(whole[:length].rstrip("-"))
        assert str(last).startswith(whole[:length].rstrip("-"))
    assert ids_with_prefix(whole) == (UUID(whole), UUID(whole))


@pytest.mark.parametrize("text", ["", "-", "report", "0199f3a2\n", "٣", "0" * 33])
def test_what_begins_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="first hexadecimal digits"):
        ids_with_prefix(text)
