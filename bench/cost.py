"""What a drain costs: processor time of the node and of PostgreSQL, for each task."""

from statistics import median

import msgspec

from bench.rounds import median_interval
from bench.stage import Stage
from bench.usage import cpu_seconds
from gnomon.bench.arena import Arena
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import BenchError, Measure, TaskTally, at_most
from gnomon.model.targets.target import PythonTarget

MICRO = 1e6


class Spent(msgspec.Struct, frozen=True):
    """Microseconds of the processor for each task, and tasks a second."""

    node: float
    postgresql: float
    rate: float

    @property
    def all(self) -> float:
        return self.node + self.postgresql


async def drain(
    stage: Stage, arena: Arena, tasks: int, name: str, **settings: str
) -> tuple[Spent, TaskTally]:
    """Store tasks, and let a node with these settings work them off."""
    await arena.preload(PythonTarget("noop"), tasks)
    before = _cpu(stage.server.pid)
    async with arena.node(**settings) as node:
        at_ready = _cpu(node.pid)
        settled = await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
        used = _cpu(node.pid) - at_ready
        database = _cpu(stage.server.pid) - before
    rate = tasks / (settled - node.ready_at)
    tally = TaskTally(name, tasks, await arena.completed())
    return Spent(used / tasks * MICRO, database / tasks * MICRO, rate), tally


def ratio(name: str, title: str, these: list[Spent], others: list[Spent], goal: float) -> Measure:
    """Processor time of these over that of the others, each in its own pair."""
    ratios = [one.all / other.all for one, other in zip(these, others, strict=True)]
    interval = median_interval(ratios)
    note = (
        f"of {', '.join(f'{each:.3f}' for each in ratios)}; between {interval.low:.3f} and "
        f"{interval.high:.3f} with {interval.confidence:.0%}"
    )
    return Measure(name, title, median(ratios), "", at_most(goal), note)


def each_task(name: str, title: str, drains: list[Spent]) -> Measure:
    """The median of these drains."""
    node, postgresql = (median(each.node for each in drains),
                        median(each.postgresql for each in drains))  # fmt: skip
    note = f"node {node:.1f}, PostgreSQL {postgresql:.1f}"
    return Measure(name, title, median(each.all for each in drains), "µs", note=note)


def _cpu(pid: int) -> float:
    seconds = cpu_seconds(pid)
    if seconds is None:
        raise BenchError("this system does not tell the processor time of a process")
    return seconds
