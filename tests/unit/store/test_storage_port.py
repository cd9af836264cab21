"""Whose bytes are counted, and when."""

from datetime import UTC, datetime, timedelta

from gnomon.store.ports.tenancy.storage import StorageLevel, to_count

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def level(stored: int, ago: float | None, took: float = 0.01) -> StorageLevel:
    return StorageLevel("acme", stored, None if ago is None else NOW - timedelta(seconds=ago), took)


def test_who_was_never_counted_is() -> None:
    assert to_count(level(0, None), 1_000, NOW)


def test_who_is_near_the_quota_is_counted_often_but_not_for_longer_than_it_rests() -> None:
    assert to_count(level(800, 5), 1_000, NOW)
    assert not to_count(level(800, 4.9), 1_000, NOW)
    assert not to_count(level(5_000, 199, took=10), 1_000, NOW)
    assert to_count(level(5_000, 200, took=10), 1_000, NOW)


def test_others_are_counted_once_a_day() -> None:
    assert not to_count(level(799, 86_399), 1_000, NOW)
    assert to_count(level(799, 86_400), 1_000, NOW)
