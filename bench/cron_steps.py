"""From one fire to the next: ours beside two libraries, all in one process and one zone."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from statistics import median

from croniter import croniter
from cronsim import CronSim

from gnomon.bench.results import Findings, Measure, at_most, number
from gnomon.cron.schedule import cron_schedule
from gnomon.cron.timeline import timeline
from gnomon.cron.zones import zone

ZONE = "America/New_York"
COMMON = (
    "*/5 * * * *",
    "0 9 * * MON-FRI",
    "30 2 * * *",
    "0 0 1 * *",
    "*/10 * * * * *",
)
EXPRESSIONS = (*COMMON, "0 0 LW * *", "0 0 29 2 *")
TARGET = at_most(10)
TIMES = 7
_START = datetime(2026, 1, 1, tzinfo=UTC)

Walk = Callable[[int], None]


def run(steps: int) -> Findings:
    findings = Findings()
    for text in EXPRESSIONS:
        notes = [f"cronsim {number(_median(_cronsim(text), steps))}"]
        if "LW" in text:
            notes.append("croniter does not know LW")
        else:
            notes.append(f"croniter {number(_median(_croniter(text), steps))}")
        ours = _median(_ours(text), steps)
        timeline.cache_clear()
        notes.append(f"{number(_microseconds(_ours(text), steps))} when the zone is new")
        target = TARGET if text in COMMON else None
        findings.add([Measure(f"cron step {text}", text, ours, "µs", target, ", ".join(notes))])
    return findings


def _median(walk: Walk, steps: int) -> float:
    return median(_microseconds(walk, steps) for _ in range(TIMES))


def _microseconds(walk: Walk, steps: int) -> float:
    # A walk takes milliseconds and waits for nothing: of the wall clock, neighbours get a share.
    began = time.process_time()
    walk(steps)
    return (time.process_time() - began) / steps * 1e6


def _ours(text: str) -> Walk:
    schedule = cron_schedule(text, ZONE)

    def walk(steps: int) -> None:
        at: datetime | None = _START
        for _ in range(steps):
            assert at is not None
            at = schedule.next_after(at)

    return walk


def _cronsim(text: str) -> Walk:
    def walk(steps: int) -> None:
        for _ in islice(CronSim(text, _START.astimezone(zone(ZONE))), steps):
            pass

    return walk


def _croniter(text: str) -> Walk:
    six = len(text.split()) == 6

    def walk(steps: int) -> None:
        found = croniter(text, _START.astimezone(zone(ZONE)), second_at_beginning=six)
        for _ in range(steps):
            found.get_next(datetime)

    return walk
