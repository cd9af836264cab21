"""What metrics and activity cost, or metrics alone: the processor time of a task, counted and not,
in turn."""

from statistics import median

import msgspec
from rich.progress import Progress

from bench.rounds import median_interval, turns
from bench.stage import Stage
from bench.trees import APP
from bench.usage import cpu_seconds
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import BenchError, Findings, Measure, TaskTally, at_most
from gnomon.model.targets.target import PythonTarget

GOAL = 1.02
MICRO = 1e6
WAYS = "counted", "uncounted"


class Spent(msgspec.Struct, frozen=True):
    """What a drain cost, in microseconds of the processor for each task."""

    node: float
    postgresql: float

    @property
    def all(self) -> float:
        return self.node + self.postgresql


async def run(
    stage: Stage, tasks: int, pairs: int, progress: Progress, *, metrics_alone: bool = False
) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=pairs * len(WAYS))
    without = "bench.unmetered:app" if metrics_alone else "bench.uncounted:app"
    apps = dict(zip(WAYS, (APP, without), strict=True))
    spent: dict[str, list[Spent]] = {way: [] for way in WAYS}
    for pair in turns(list(WAYS), pairs):
        for way in pair:
            progress.update(bar, description=way)
            one, tally = await _drain(stage, tasks, way, apps[way])
            findings.add([], tally)
            spent[way].append(one)
            progress.advance(bar)
    findings.add(_measures(spent["counted"], spent["uncounted"]))
    return findings


async def _drain(stage: Stage, tasks: int, way: str, app: str) -> tuple[Spent, TaskTally]:
    async with stage.arena() as arena:
        await arena.preload(PythonTarget("noop"), tasks)
        before = _cpu(stage.server.pid)
        async with arena.node(node_app=app) as node:
            at_ready = _cpu(node.pid)
            await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
            used = _cpu(node.pid) - at_ready
            database = _cpu(stage.server.pid) - before
        tally = TaskTally(f"drain_{way}", tasks, await arena.completed())
    return Spent(used / tasks * MICRO, database / tasks * MICRO), tally


def _cpu(pid: int) -> float:
    seconds = cpu_seconds(pid)
    if seconds is None:
        raise BenchError("this system does not tell the processor time of a process")
    return seconds


def _measures(counted: list[Spent], uncounted: list[Spent]) -> list[Measure]:
    ratios = [one.all / other.all for one, other in zip(counted, uncounted, strict=True)]
    interval = median_interval(ratios)
    note = (
        f"of {', '.join(f'{ratio:.3f}' for ratio in ratios)}; between {interval.low:.3f} and "
        f"{interval.high:.3f} with {interval.confidence:.0%}"
    )
    return [
        Measure("counted_cpu", "a task, counted", median(each.all for each in counted), "µs",
                note=_shares(counted)),
        Measure("uncounted_cpu", "a task, not counted", median(each.all for each in uncounted),
                "µs", note=_shares(uncounted)),
        Measure("counting_ratio", "ratio, median of pairs", median(ratios), "", at_most(GOAL),
                note),
    ]  # fmt: skip


def _shares(drains: list[Spent]) -> str:
    node = median(each.node for each in drains)
    return f"node {node:.1f}, PostgreSQL {median(each.postgresql for each in drains):.1f}"
