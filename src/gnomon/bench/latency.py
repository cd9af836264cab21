"""How soon tasks start: one at a time on an idle node, and many at one instant.

A start is what the called function reads from the clock. All processes but the server share one
machine, and so one clock.
"""

import asyncio
import time
from pathlib import Path
from statistics import median

from gnomon.bench.arena import Arena, Arenas
from gnomon.bench.functions import read_calls
from gnomon.bench.processes import Process, calls_file
from gnomon.bench.results import BenchError, Measure, TaskTally, at_most, percentile
from gnomon.bench.sizes import Sizes
from gnomon.bench.submission import submit

PAUSE = 0.02  # mean seconds between two lone tasks
LEAD_SECONDS = 4.0  # from submission to the instant, about
_FIRST_OF_HERD = 1_000_000
_STAMPED_SECONDS = 30.0


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    async with arenas.arena() as arena, arena.api() as api, arena.node():
        await submit(api, function="stamp", requests=5, pause=PAUSE, first=-5)  # warm up
        idle = await _idle(arena, api, sizes.idle)
        delays = await herd(arena, api, sizes.herd, sizes.herds)
        await arena.settled(_STAMPED_SECONDS)
        first = _FIRST_OF_HERD + len(delays)
        large = await herd(arena, api, sizes.large_herd, sizes.rounds, first)
        await arena.settled(_STAMPED_SECONDS)
        completed = await arena.completed() - 5
        stamps = read_calls(calls_file(arena.folder))
    submitted = sizes.idle + len(delays) + len(large)
    early = sum(delay < 0 for delay in delays + large)
    repeated = sum(len(moments) > 1 for moments in stamps.values())
    tally = TaskTally("latency", submitted, completed, early, repeated)
    herds = herd_measures(delays, sizes.herd, "herd", 10)
    return [*idle, *herds, *herd_measures(large, sizes.large_herd, "large_herd", 150)], [tally]


async def lone(arena: Arena, api: Process, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds to the start of tasks that are submitted one at a time: from the answer, and
    from the request."""
    loaded = await submit(api, function="stamp", requests=count, pause=PAUSE, first=0)
    starts = await _starts(calls_file(arena.folder), range(count))
    pairs = list(zip(loaded.moments, starts, strict=True))
    from_answer = [(start - answered) * 1000 for (_, answered), start in pairs]
    return from_answer, [(start - sent) * 1000 for (sent, _), start in pairs]


async def _idle(arena: Arena, api: Process, count: int) -> list[Measure]:
    from_answer, from_request = await lone(arena, api, count)
    note = f"{count} tasks, one at a time"
    return [
        Measure(
            "idle_p50",
            "202 answer to start, p50",
            percentile(from_answer, 0.50),
            "ms",
            at_most(3),
            note,
        ),
        Measure(
            "idle_p99", "202 answer to start, p99", percentile(from_answer, 0.99), "ms", at_most(10)
        ),
        Measure("idle_request_p50", "request to start, p50", percentile(from_request, 0.50), "ms"),
        Measure("idle_request_p99", "request to start, p99", percentile(from_request, 0.99), "ms"),
    ]


async def herd(
    arena: Arena, api: Process, count: int, rounds: int, number: int = _FIRST_OF_HERD
) -> list[float]:
    """Seconds from the instant to the start of each task that was due at it, herd by herd. They
    are numbered from `number` on."""
    delays: list[float] = []
    ahead = await arena.clock_ahead()  # what is due, the server's clock decides
    for first in range(number, number + rounds * count, count):
        loaded = await submit(
            api, function="stamp", tasks=count, requests=1, first=first, due_in=LEAD_SECONDS
        )
        due_at = loaded.due_at
        if due_at is None or loaded.ended > due_at - 0.5:
            raise BenchError("submitting took so long that the tasks were nearly due")
        await asyncio.sleep(max(0.0, due_at - time.time()))
        starts = await _starts(calls_file(arena.folder), range(first, first + count))
        delays += [start + ahead - due_at for start in starts]
    return delays


def herd_measures(delays: list[float], count: int, name: str, most: float) -> list[Measure]:
    """`most`: milliseconds that 99 % may be late."""
    late = [delay * 1000 for delay in delays]
    herds = [late[first : first + count] for first in range(0, len(late), count)]
    p50, p99 = ([percentile(each, share) for each in herds] for share in (0.50, 0.99))
    early = sum(delay < 0 for delay in delays)
    what = f"{count} due at one instant"
    note = f"median of {len(herds)} herds, {min(p99):.1f} to {max(p99):.1f} ms"
    return [
        Measure(f"{name}_p50", f"{what}: start delay p50", median(p50), "ms"),
        Measure(f"{name}_p99", f"{what}: start delay p99", median(p99), "ms", at_most(most), note),
        Measure(f"{name}_max", f"{what}: start delay max", max(late), "ms"),
        Measure(f"{name}_early", f"{what}: began early", early, "tasks", at_most(0)),
    ]


async def _starts(file: Path, numbers: range) -> list[float]:
    """The first start of each, as soon as all are known."""
    deadline = time.monotonic() + _STAMPED_SECONDS
    while True:
        stamps = read_calls(file)
        if all(number in stamps for number in numbers):
            return [stamps[number][0] for number in numbers]
        if time.monotonic() > deadline:
            missing = sum(number not in stamps for number in numbers)
            raise BenchError(f"{missing} of {len(numbers)} tasks did not start")
        await asyncio.sleep(0.1)
