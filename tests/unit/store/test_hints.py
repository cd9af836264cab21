"""Hints as text: small enough for NOTIFY, and the same when they are read."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gnomon.clock import from_micros
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.hints import LOOK_AGAIN, decode_entries, encode_entries

entries = st.builds(
    Entry,
    key=st.builds(
        TaskKey,
        st.text(st.characters(blacklist_categories=["C"]), min_size=1, max_size=20),
        st.uuids(),
    ),
    due_at=st.integers(0, 4_000_000_000_000_000).map(from_micros),
    lane=st.sampled_from(Lane),
    flow=st.integers(-(1 << 63), (1 << 63) - 1),
    by_handler=st.booleans(),
)


@given(st.lists(entries, min_size=1, max_size=30))
def test_what_was_said_is_what_is_heard(said: list[Entry]) -> None:
    assert decode_entries(encode_entries(said)) == said


@given(st.lists(entries, min_size=1, max_size=400))
def test_a_hint_always_fits(said: list[Entry]) -> None:
    text = encode_entries(said)
    assert len(text.encode()) < 8000
    assert decode_entries(text) in (said, None)


def test_too_many_to_name_means_look_again() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    many = [
        Entry(TaskKey("t", UUID(int=n)), moment + timedelta(microseconds=n), Lane.LOW)
        for n in range(500)
    ]
    assert encode_entries(many) == LOOK_AGAIN
    assert decode_entries(LOOK_AGAIN) is None
