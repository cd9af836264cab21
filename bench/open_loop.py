"""Answers of the API at planned rates, whatever it does meanwhile: an open loop. A client that
waits for each answer before it asks again is slowed down by what it measures, and hides it."""

from collections.abc import Sequence

from gnomon.bench.arena import Arenas
from gnomon.bench.load import Loaded
from gnomon.bench.results import Measure, TaskTally, at_least, number
from gnomon.bench.sizes import Sizes
from gnomon.bench.submission import BATCH, submit

CONNECTIONS, BATCH_CONNECTIONS = 256, 8
SINGLE_MS, BATCH_MS = 20.0, 200.0
HELD = 0.97  # of the planned rate


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    singles, singles_tally = await _rates(arenas, "single", sizes.singles, 1, sizes.seconds)
    batches, batches_tally = await _rates(arenas, "batch", sizes.batches, BATCH, sizes.seconds)
    measures = [
        *_measures("single", "one a call", singles, SINGLE_MS, max(sizes.singles)),
        *_measures("batch", f"batches of {BATCH}", batches, BATCH_MS, max(sizes.batches)),
    ]
    return measures, [singles_tally, batches_tally]


async def _rates(
    arenas: Arenas, name: str, rates: Sequence[int], tasks: int, seconds: float
) -> tuple[dict[int, Loaded], TaskTally]:
    """What came of each rate, on one database: nothing runs meanwhile."""
    connections = BATCH_CONNECTIONS if tasks > 1 else CONNECTIONS
    found: dict[int, Loaded] = {}
    async with arenas.arena() as arena, arena.api() as api:
        warm = await submit(api, connections=connections, tasks=tasks, requests=connections)
        for rate in rates:
            found[rate] = await submit(
                api, connections=connections, tasks=tasks, rate=rate / tasks, seconds=seconds
            )
        accepted = warm.accepted + sum(loaded.accepted for loaded in found.values())
        return found, TaskTally(f"open_{name}", accepted, await arena.live())


def _measures(
    name: str, how: str, found: dict[int, Loaded], bound: float, wanted: int
) -> list[Measure]:
    measures = []
    held = 0
    for rate, loaded in found.items():
        p50, p99 = loaded.p50 * 1000, loaded.p99 * 1000
        reached = loaded.accepted / (loaded.ended - loaded.began)
        if p99 <= bound and reached >= HELD * rate:
            held = max(held, rate)
        title = f"open loop, {number(rate)} /s, {how}: p99"
        note = f"from the planned moment; p50 {p50:.1f} ms, {number(reached)} /s answered"
        measures.append(Measure(f"open_{name}_{rate}_p99", title, p99, "ms", note=note))
    title = f"open loop, {how}: held"
    note = f"the highest of these rates with p99 ≤ {bound:g} ms"
    measures.append(Measure(f"open_{name}_held", title, held, "/s", at_least(wanted), note))
    return measures
