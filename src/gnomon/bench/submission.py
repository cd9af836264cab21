"""How fast tasks can be handed in over HTTP, each acknowledged after its commit.

No node runs meanwhile: this is the API and PostgreSQL alone. `sustained` measures all together.
"""

from gnomon.bench.arena import Arena, Arenas
from gnomon.bench.load import Loaded
from gnomon.bench.processes import Process, helper
from gnomon.bench.results import BenchError, Measure, TaskTally, at_least, at_most
from gnomon.bench.sizes import Sizes

CONNECTIONS = 64
BATCH = 1_000
BATCH_CONNECTIONS = 4


async def submit(api: Process, **asked: object) -> Loaded:
    """Load the API, from a process of its own. Any refusal spoils the measure."""
    port = int(api.where.rpartition(":")[2])
    loaded = await helper("gnomon.bench.load", {"port": port, **asked}, Loaded)
    if loaded.refused or not loaded.accepted:
        raise BenchError(f"the API refused {loaded.refused} requests")
    return loaded


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    async with arenas.arena() as arena, arena.api() as api:
        warm, most = sizes.seconds / 5, max(1, sizes.most // 5)
        await submit(api, connections=CONNECTIONS, seconds=warm, requests=most)
        single, single_tally = await _timed(arena, api, "submit_single", sizes, CONNECTIONS, 1)
    async with arenas.arena() as arena, arena.api() as api:
        await submit(api, connections=BATCH_CONNECTIONS, tasks=BATCH, requests=BATCH_CONNECTIONS)
        batch, batch_tally = await _timed(
            arena, api, "submit_batch", sizes, BATCH_CONNECTIONS, BATCH
        )
    return [*_single(single), *_batch(batch)], [single_tally, batch_tally]


async def _timed(
    arena: Arena, api: Process, name: str, sizes: Sizes, connections: int, tasks: int
) -> tuple[Loaded, TaskTally]:
    before = await arena.live()
    await arena.rest()
    loaded = await submit(
        api,
        connections=connections,
        tasks=tasks,
        seconds=sizes.seconds,
        requests=max(1, sizes.most // tasks),
    )
    stored = await arena.live() - before
    return loaded, TaskTally(name, loaded.accepted, stored)


def _single(loaded: Loaded) -> list[Measure]:
    note = f"one task a request, {CONNECTIONS} connections"
    return [
        Measure("submit_single_rate", "submit", _rate(loaded), "/s", at_least(4_000), note),
        Measure("submit_single_p50", "submit, answer p50", loaded.p50 * 1000, "ms"),
        Measure("submit_single_p99", "submit, answer p99", loaded.p99 * 1000, "ms", at_most(50)),
    ]


def _batch(loaded: Loaded) -> list[Measure]:
    note = f"batches of {BATCH}, {BATCH_CONNECTIONS} connections"
    return [
        Measure(
            "submit_batch_rate", "submit in batches", _rate(loaded), "/s", at_least(30_000), note
        ),
        Measure("submit_batch_p99", "batch, answer p99", loaded.p99 * 1000, "ms"),
    ]


def _rate(loaded: Loaded) -> float:
    return loaded.accepted / (loaded.ended - loaded.began)
