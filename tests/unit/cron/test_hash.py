"""`H`: the oracle cannot know the hash, but it knows what must be true of it."""

import math
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from zoneinfo import ZoneInfo

import pytest
from proof.cron_oracle.grammar import RANGES, read
from proof.cron_oracle.oracle import FOLDS, GAPS, Policy, Window, possible

from gnomon.cron.schedule import Dst, Fold, Gap, cron_schedule
from gnomon.model.errors import InvalidSchedule

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


def _dates_with_hash(rng: Random) -> str:
    """Day, month and weekday with at least one H, many of them without any date."""
    first, last = sorted((rng.randint(26, 31), rng.randint(26, 31)))
    low, high = sorted((rng.randint(1, 12), rng.randint(1, 12)))
    step = rng.choice(("", "", f"/{rng.randint(1, 4)}"))
    hashed_day = rng.choice(("H", f"H({first}-{last}){step}", f"31,H({first}-{last})"))
    hashed_month = rng.choice(("H", f"H({low}-{high}){step}", f"2,H({low}-{high})", f"H{step}"))
    day = rng.choice(("29", "30", "31", "30,31", "31W", "30W", "L-28", "L-29W", "L-30", "LW"))
    month = rng.choice(("2", "2,4", "4,6,9,11", "6", "1-12/3", "*"))
    weekday = rng.choice(("*", "*", "?", "*/7", "*/2"))
    both = (hashed_day, hashed_month), (hashed_day, month), (day, hashed_month)
    return "0 0 {} {} {}".format(*rng.choice(both), weekday)


def _any_value(field: str, item: str) -> frozenset[int]:
    """All that an item may come to, for whatever job."""
    low, high = RANGES[field]
    high = 28 if field == "day" else high
    if found := re.match(r"H\((\d+)-(\d+)\)", item):
        low, high = int(found[1]), int(found[2])
    return frozenset(range(low, high + 1))


def test_whether_an_expression_can_be_used_does_not_depend_on_the_job() -> None:
    rng, seen = Random("dates"), Counter[bool]()
    for _ in range(400):
        text = _dates_with_hash(rng)
        can_be = possible(read(text, _any_value))
        for seed in ("", *SEEDS[:5]):
            try:
                schedule = cron_schedule(text, seed=seed)
            except InvalidSchedule:
                assert not can_be, (text, seed)
            else:
                assert can_be, (text, seed)
                assert schedule.next_after(NEW_YEAR) is not None, (text, seed)
        seen[can_be] += 1
    assert min(seen[True], seen[False]) > 5, "nothing was compared"
