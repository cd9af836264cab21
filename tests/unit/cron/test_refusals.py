"""What is refused: the engine must take exactly the expressions that the oracle can read."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim, CronSimError
from proof.cron_oracle.generator import by_days, by_minutes, by_seconds
from proof.cron_oracle.grammar import Reading, read
from proof.cron_oracle.oracle import DEFAULT, Window, possible

from gnomon.cron.schedule import Schedule, cron_schedule
from gnomon.model.errors import InvalidSchedule

# Mostly what means something somewhere in an expression; no H, whose value only the engine knows.
CHARACTERS = "0123456789**//,,--LLWW##??()SUNMOFRIJAD @\u0663"
LEAP_DAY = datetime(2024, 2, 28, 12, tzinfo=UTC)
SPAN = timedelta(days=2)


def _oracle(text: str) -> Reading | None:
    try:
        reading = read(text)
    except ValueError:
        return None
    return reading if possible(reading) else None


def _engine(text: str) -> Schedule | None:
    try:
        return cron_schedule(text)
    except InvalidSchedule:
        return None


def _spoilt(rng: Random) -> str:
    """An expression with one or two characters put in, replaced or left out."""
    text = rng.choice((by_minutes, by_days, by_seconds))(rng)
    for _ in range(rng.choice((1, 1, 2))):
        at, character = rng.randrange(len(text)), rng.choice(CHARACTERS)
        text = text[:at] + rng.choice((character, character, "")) + text[at + rng.randint(0, 1) :]
    return text


@pytest.mark.parametrize("seed", range(3))
def test_spoilt_expressions_are_refused_or_read_alike(seed: int) -> None:
    rng, seen = Random(f"spoilt {seed}"), Counter[bool]()
    start = int(LEAP_DAY.timestamp())
    window = Window(ZoneInfo("UTC"), start, start + int(SPAN.total_seconds()), 60)
    for _ in range(2000):
        text = _spoilt(rng)
        reading, schedule = _oracle(text), _engine(text)
        assert (schedule is None) == (reading is None), text
        seen[schedule is not None] += 1
        if schedule is not None and reading is not None and not reading.has_seconds:
            found = [int(at.timestamp()) for at in schedule.fires(LEAP_DAY, LEAP_DAY + SPAN)]
            assert found == window.fires(reading, DEFAULT), text
    assert min(seen[True], seen[False]) > 60, "nothing was compared"


@pytest.mark.parametrize("text", ["0 22-4 * * *", "0 0 * NOV-FEB *", "0 0 * * FRI-MON"])
def test_ranges_that_run_backwards_are_taken_by_croniter_only(text: str) -> None:
    croniter(text, LEAP_DAY)
    with pytest.raises(CronSimError):
        CronSim(text, LEAP_DAY)
    assert _engine(text) is None
