"""What idle sessions cost the API process that is their gateway: over HTTP and behind brokers, for
more and more of them, and what many more would cost by the line through these."""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression
from typing import NamedTuple

from bench.sessions import CONNECTIONS, Answered, Asked
from bench.stage import Stage
from bench.trees import ROOT
from gnomon.bench.arena import Arena
from gnomon.bench.processes import Process, helper
from gnomon.bench.results import Measure, at_least, at_most, number

SHARES = (8, 4, 2, 1)  # of the sessions, the largest last: 250, 500, 1 000 and 2 000
MANY = 10_000  # that are extrapolated to
_HELPERS = 4  # processes that hold the sessions
_LOOK_SECONDS = 0.5
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What so many sessions cost an API process."""

    sessions: int
    processor: float  # % of a core, once they are open
    memory: float  # MB at the most
    failed: int  # calls


async def curve(
    stage: Stage, way: str, pipe: str | None, sessions: int, seconds: float
) -> list[Measure]:
    costs = []
    for share in SHARES:
        async with stage.arena() as arena:
            costs.append(await _cost(arena, pipe, sessions // share, seconds))
    return measures(way, pipe, costs, sessions, seconds)


async def _cost(arena: Arena, pipe: str | None, sessions: int, seconds: float) -> Cost:
    given = {} if pipe is None else {"pipe_url": pipe}
    async with arena.api(**given) as api:
        part = max(1, sessions // _HELPERS)
        asked = [Asked(pipe or api.where, part, seconds) for _ in range(_HELPERS)]
        looks: list[tuple[float, float]] = []
        watching = asyncio.ensure_future(_watch(api, looks))
        answers = await asyncio.gather(
            *(helper("bench.sessions", a, Answered, ROOT) for a in asked)
        )
        watching.cancel()
        peak = api.peak_memory() or 0
    return Cost(
        sum(answer.opened for answer in answers),
        steady(looks),
        peak / 1024 / 1024,
        sum(answer.failed for answer in answers),
    )


async def _watch(api: Process, looks: list[tuple[float, float]]) -> None:
    while True:
        looks.append((time.monotonic(), _processor(api)))
        await asyncio.sleep(_LOOK_SECONDS)


def steady(looks: Sequence[tuple[float, float]]) -> float:
    """% of a core, from the middle of the time to before its end: while they open and leave they
    cost more."""
    begin, end = looks[len(looks) // 2], looks[max(len(looks) // 2 + 1, len(looks) * 9 // 10) - 1]
    return 100 * (end[1] - begin[1]) / max(_LOOK_SECONDS, end[0] - begin[0])


def measures(
    way: str, pipe: str | None, costs: Sequence[Cost], sessions: int, seconds: float
) -> list[Measure]:
    shared = "" if pipe is None else f"; they share {_HELPERS * CONNECTIONS} connections"
    note = f"{_HELPERS} processes hold them for {seconds:g} s{shared}"
    opened, failed = costs[-1].sessions, sum(cost.failed for cost in costs)
    found = [
        Measure(f"sessions_{way}", f"sessions, {way}", opened, "", at_least(sessions), note),
        Measure(f"sessions_{way}_failed", "calls that failed", failed, "", at_most(0)),
    ]
    for cost in costs:
        name, title = f"sessions_{way}_{cost.sessions}", f"{number(cost.sessions)}, {way}"
        found.append(Measure(f"{name}_cpu", f"{title}: processor", cost.processor, "% of a core"))
        found.append(Measure(f"{name}_memory", f"{title}: memory", cost.memory, "MB"))
    if len({cost.sessions for cost in costs}) > 1:
        found += _extrapolated(way, costs)
    return found


def _extrapolated(way: str, costs: Sequence[Cost]) -> list[Measure]:
    counts = [cost.sessions for cost in costs]
    found = []
    for what, unit, values in (
        ("processor", "% of a core", [cost.processor for cost in costs]),
        ("memory", "MB", [cost.memory for cost in costs]),
    ):
        slope, base = linear_regression(counts, values)
        title = f"{number(MANY)}, {way}: {what}, by the line"
        note = f"{number(base)} and {number(1000 * slope)} for 1 000"
        found.append(
            Measure(f"sessions_{way}_many_{what}", title, base + MANY * slope, unit, note=note)
        )
    return found


def _processor(process: Process) -> float:
    """Seconds that it has used a processor for."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS
