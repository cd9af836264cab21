"""Everything at once: tasks are submitted, run and settled at the same time, for a while."""

from gnomon.bench.arena import Arenas
from gnomon.bench.drain import SLOWEST_RATE
from gnomon.bench.results import Measure, TaskTally, at_least
from gnomon.bench.sizes import Sizes
from gnomon.bench.submission import BATCH, submit

CONNECTIONS = 2


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    async with arenas.arena() as arena, arena.api() as api, arena.node():
        warm = await submit(api, connections=CONNECTIONS, tasks=BATCH, requests=CONNECTIONS)
        await arena.settled(60.0)
        most = max(1, sizes.most // BATCH)
        loaded = await submit(
            api, connections=CONNECTIONS, tasks=BATCH, seconds=sizes.seconds, requests=most
        )
        backlog = await arena.live()
        settled = await arena.settled(60.0 + loaded.accepted / SLOWEST_RATE)
        completed = await arena.completed() - warm.accepted
    rate = loaded.accepted / (settled - loaded.began)
    submitted = loaded.accepted / (loaded.ended - loaded.began)
    note = f"from the first request to the last settled, {settled - loaded.began:.1f} s"
    measures = [
        Measure("sustained_rate", "submit → run → settled", rate, "/s", at_least(20_000), note),
        Measure("sustained_submit_rate", "of that, submitted meanwhile", submitted, "/s"),
        Measure("sustained_backlog", "live when submission ended", backlog, "tasks"),
    ]
    return measures, [TaskTally("sustained", loaded.accepted, completed)]
