"""`H`: the oracle cannot know the hash, but it knows what must be true of it."""

import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from zoneinfo import ZoneInfo

import pytest
from tests.cron.grammar import RANGES, read
from tests.cron.oracle import FOLDS, GAPS, Policy, Window

from gnomon.cron.schedule import Dst, Fold, Gap, cron_schedule

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday
SEEDS = [f"job-{number}" for number in range(1500)]
# An expression in which only one field is hashed, for how long to look, and what to look at.
LOOK: dict[str, tuple[str, timedelta, Callable[[datetime], int]]] = {
    "second": ("{} 0 0 * * *", timedelta(minutes=1), lambda at: at.second),
    "minute": ("{} 0 * * *", timedelta(hours=1), lambda at: at.minute),
    "hour": ("0 {} * * *", timedelta(days=1), lambda at: at.hour),
    "day": ("0 0 {} 1 *", timedelta(days=31), lambda at: at.day),
    "month": ("0 0 1 {} *", timedelta(days=366), lambda at: at.month),
    "weekday": ("0 0 * * {}", timedelta(days=7), lambda at: at.isoweekday() % 7),
}


@cache
def observed(seed: str, field: str, item: str) -> frozenset[int]:
    """What the engine takes `item` for, seen from when it fires."""
    text, span, part = LOOK[field]
    schedule = cron_schedule(text.format(item), seed=seed)
    before = NEW_YEAR - timedelta(seconds=1)
    return frozenset(part(at) for at in schedule.fires(before, before + span))


@pytest.mark.parametrize("field", LOOK)
def test_the_hash_is_inside_the_field_and_evenly_spread(field: str) -> None:
    low, high = RANGES[field]
    high = 28 if field == "day" else high
    counts = Counter(value for seed in SEEDS for value in observed(seed, field, "H"))
    assert counts.total() == len(SEEDS)
    assert low <= min(counts)
    assert max(counts) <= high
    _assert_even([counts[value] for value in range(low, high + 1)])


def _assert_even(counts: list[int]) -> None:
    """Chi-square; an even hash exceeds six deviations in no lifetime."""
    mean = sum(counts) / len(counts)
    freedom = len(counts) - 1
    chi_square = sum((count - mean) ** 2 / mean for count in counts)
    assert chi_square < freedom + 6 * math.sqrt(2 * freedom), counts


def test_a_range_keeps_the_hash_inside_it() -> None:
    counts = Counter(value for seed in SEEDS for value in observed(seed, "minute", "H(10-29)"))
    assert set(counts) == set(range(10, 30))
    _assert_even([counts[value] for value in range(10, 30)])


@pytest.mark.parametrize(
    ("field", "item", "low", "high", "step"),
    [
        ("minute", "H/15", 0, 59, 15),
        ("minute", "H/7", 0, 59, 7),
        ("second", "H/20", 0, 59, 20),
        ("hour", "H/6", 0, 23, 6),
        ("minute", "H(0-29)/10", 0, 29, 10),
        ("hour", "H(8-18)/3", 8, 18, 3),
    ],
)
def test_steps_begin_below_the_step_and_go_on_to_the_end(
    field: str, item: str, low: int, high: int, step: int
) -> None:
    starts: Counter[int] = Counter()
    for seed in SEEDS[:600]:
        values = sorted(observed(seed, field, item))
        assert low <= values[0] < low + step
        assert values == list(range(values[0], high + 1, step))
        starts[values[0]] += 1
    _assert_even([starts[low + number] for number in range(step)])


def test_the_hash_depends_on_the_field() -> None:
    """Else all jobs of minute 7 would be those of second 7."""
    same = sum(observed(seed, "second", "H") == observed(seed, "minute", "H") for seed in SEEDS)
    assert same < len(SEEDS) / 20


def test_the_same_seed_gives_the_same_times_and_none_is_the_empty_one() -> None:
    again = cron_schedule("H H * * *", seed="x").next_after(NEW_YEAR)
    assert cron_schedule("H H * * *", seed="x").next_after(NEW_YEAR) == again
    unseeded = cron_schedule("H H * * *").next_after(NEW_YEAR)
    assert cron_schedule("H H * * *", seed="").next_after(NEW_YEAR) == unseeded


WITH_HASH = (
    "H * * * *",
    "H/15 * * * *",
    "H H * * *",
    "H 1 * * *",
    "H(0-29)/10 1-3 * * *",
    "H H/6 * * *",
    "30 H(0-3) * * *",
    "H 2 * * H,SUN",
    "H 0-4 H(1-31)/3 * *",
    "H 1,2 * H/2 *",
)


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("America/New_York", datetime(2025, 3, 8, tzinfo=UTC)),
        ("America/New_York", datetime(2025, 11, 1, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2025, 4, 4, tzinfo=UTC)),
        ("America/Havana", datetime(2025, 3, 8, tzinfo=UTC)),
    ],
)
def test_a_hash_is_as_good_as_the_number_it_stands_for(zone: str, around: datetime) -> None:
    rng = Random(zone)
    start, end = int(around.timestamp()), int(around.timestamp()) + 3 * 86_400
    window = Window(ZoneInfo(zone), start, end, 60)
    for text in WITH_HASH:
        for seed in SEEDS[:8]:
            policy = Policy(rng.choice(GAPS), rng.choice(FOLDS))
            reading = read(text, lambda field, item, seed=seed: observed(seed, field, item))  # type: ignore[misc]
            dst = Dst(gap=Gap(policy.gap), fold=Fold(policy.fold))
            schedule = cron_schedule(text, zone, dst, seed=seed)
            fires = schedule.fires(around, around + timedelta(days=3))
            assert [int(at.timestamp()) for at in fires] == window.fires(reading, policy), text
