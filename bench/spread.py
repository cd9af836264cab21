"""A drain whose tasks belong to many tenants and all priorities, beside one of a single tenant."""

from gnomon.bench.arena import Arenas
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import Measure, TaskTally, at_least
from gnomon.bench.sizes import Sizes
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Lane


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    alone, one = await drain(arenas, 1, sizes.tasks)
    spread, many = await drain(arenas, sizes.tenants, sizes.tasks)
    note = f"{sizes.tasks} tasks of {sizes.tenants} tenants, in {len(Lane)} priorities each"
    measures = [
        Measure("spread_rate", "drain, many tenants and priorities", spread, "/s", note=note),
        Measure("spread_ratio", "ratio to one tenant", spread / alone, "", at_least(0.9)),
    ]
    return measures, [one, many]


async def drain(arenas: Arenas, tenants: int, count: int) -> tuple[float, TaskTally]:
    """Tasks a second from the node being ready; each tenant has tasks of all priorities."""
    async with arenas.arena() as arena:
        names = await arena.add_tenants(tenants)
        flows = [(tenant, lane) for tenant in names for lane in Lane]
        await arena.preload(PythonTarget("noop"), count, flows=flows)
        async with arena.node() as node:
            settled = await arena.settled(START_SECONDS + count / SLOWEST_RATE)
        tally = TaskTally(f"drain_{tenants}_tenants", count, await arena.completed())
        return count / (settled - node.ready_at), tally
