"""How fast one node works off a backlog of a function that does nothing."""

from gnomon.bench.arena import Arenas
from gnomon.bench.results import Measure, TaskTally
from gnomon.bench.sizes import Sizes
from gnomon.model.targets.target import PythonTarget, Target

SLOWEST_RATE = 200  # tasks a second; below that a measure is given up
START_SECONDS = 30.0


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    started, ready, steady, tally = await drain(arenas, "drain", PythonTarget("noop"), sizes.tasks)
    note = f"{sizes.tasks} tasks, history kept"
    measures = [
        Measure("drain_rate", "drain, from the node being ready", ready, "/s", note=note),
        Measure("drain_rate_with_start", "drain, from the start of its process", started, "/s"),
        Measure("drain_rate_steady", "drain, without the first and last tenth", steady, "/s"),
    ]
    return measures, [tally]


async def drain(
    arenas: Arenas, name: str, target: Target, count: int
) -> tuple[float, float, float, TaskTally]:
    """Tasks a second since the process was started, since it was ready, and in between."""
    async with arenas.arena() as arena:
        await arena.preload(target, count)
        async with arena.node() as node:
            settled = await arena.settled(START_SECONDS + count / SLOWEST_RATE)
        tally = TaskTally(name, count, await arena.completed())
        return (
            count / (settled - node.started_at),
            count / (settled - node.ready_at),
            await arena.steady_rate(),
            tally,
        )
