"""This tree against another commit, in pairs: what a change did to submission and drain.

Both run on the same server, one after the other, each on a fresh database with its own schema. The
second pair begins with the other one. Only the ratio within a pair counts: what a machine can do
changes more from minute to minute than most changes to the code are worth.
"""

from collections.abc import Sequence
from statistics import median

import msgspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.rounds import Interval, median_interval, turns
from bench.stage import Stage
from bench.trees import HERE, ROOT, Tree, checkout
from bench.usage import cpu_seconds
from gnomon.bench.arena import Arena
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.load import Loaded
from gnomon.bench.processes import Process
from gnomon.bench.results import TaskTally, number
from gnomon.bench.submission import BATCH, BATCH_CONNECTIONS, CONNECTIONS, submit

FOLDER = ROOT / "build" / "compare"
KINDS = ("drain", "submit", "sustained")
SUSTAINED_CONNECTIONS = 2
MICRO = 1e6


class Quantity(msgspec.Struct, frozen=True):
    """One line of the table."""

    title: str
    unit: str
    higher_is_better: bool


QUANTITIES = {
    "submit_single": Quantity("submit singly", "/s", True),
    "submit_batch": Quantity("submit batches", "/s", True),
    "drain": Quantity("drain", "/s", True),
    "drain_steady": Quantity("drain, middle", "/s", True),  # without the first and last tenth
    "drain_cpu_node": Quantity("node CPU", "µs", False),  # of one task of the drain
    "drain_cpu_postgresql": Quantity("PostgreSQL CPU", "µs", False),
    "sustained": Quantity("sustained", "/s", True),  # submit → run → settled
}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity on both sides."""

    name: str
    quantity: Quantity
    pairs: list[tuple[float, float]]  # this tree's value, the other's
    ratio: float
    interval: Interval
    verdict: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what."""

    pairs: int
    tasks: int
    singles: int  # requests with one task
    kinds: Sequence[str]
    analyze: bool  # before a drain


Values = dict[str, float]


async def run(
    stage: Stage, commit: str, plan: Plan, progress: Progress
) -> tuple[str, list[Comparison]]:
    bar = progress.add_task(f"getting {commit}", total=plan.pairs * 2)
    other = await checkout(commit, FOLDER)
    found: dict[str, list[Values]] = {HERE.name: [], other.name: []}
    for number_of_pair, pair in enumerate(turns([HERE, other], plan.pairs), 1):
        for tree in pair:
            progress.update(bar, description=f"pair {number_of_pair}: {tree.name}")
            values, tallies = await _measure(stage, tree, plan)
            for tally in tallies:
                tally.check()
            found[tree.name].append(values)
            progress.advance(bar)
    progress.update(bar, description="done")
    return other.name, comparisons(found[HERE.name], found[other.name])


async def _measure(stage: Stage, tree: Tree, plan: Plan) -> tuple[Values, list[TaskTally]]:
    values: Values = {}
    tallies: list[TaskTally] = []
    if "drain" in plan.kinds or "submit" in plan.kinds:
        async with stage.arena(tree) as arena:
            tallies += await _submit(arena, plan, values)
            if "drain" in plan.kinds:
                tallies.append(await _drain(stage, arena, plan, values))
    if "sustained" in plan.kinds:
        async with stage.arena(tree) as arena:
            tallies.append(await _sustained(arena, plan, values))
    return values, tallies


async def _submit(arena: Arena, plan: Plan, values: Values) -> list[TaskTally]:
    """Over HTTP, to whoever is measured: what is then drained was stored by its own code."""
    async with arena.api() as api:
        singles = 0
        if "submit" in plan.kinds:
            warm = await submit(api, connections=CONNECTIONS, requests=CONNECTIONS)
            loaded = await submit(api, connections=CONNECTIONS, requests=plan.singles)
            values["submit_single"] = loaded.accepted / (loaded.ended - loaded.began)
            singles = warm.accepted + loaded.accepted
        batches = await _batches(api, plan.tasks, BATCH_CONNECTIONS)
        if "submit" in plan.kinds:
            values["submit_batch"] = batches.accepted / (batches.ended - batches.began)
        return [TaskTally("submit", singles + batches.accepted, await arena.live())]


async def _batches(api: Process, tasks: int, connections: int) -> Loaded:
    size = min(BATCH, tasks)
    return await submit(api, connections=connections, tasks=size, requests=-(-tasks // size))


async def _drain(stage: Stage, arena: Arena, plan: Plan, values: Values) -> TaskTally:
    count = await arena.live()
    if plan.analyze:
        await arena.rest()
    async with arena.node() as node:
        before = _cpu(node, stage)
        settled = await arena.settled(START_SECONDS + count / SLOWEST_RATE)
        after = _cpu(node, stage)
    values["drain"] = count / (settled - node.ready_at)
    values["drain_steady"] = await arena.steady_rate()
    if before is not None and after is not None:
        used = [(end - begin) / count * MICRO for begin, end in zip(before, after, strict=True)]
        values["drain_cpu_node"], values["drain_cpu_postgresql"] = used
    return TaskTally("drain", count, await arena.completed())


def _cpu(node: Process, stage: Stage) -> tuple[float, float] | None:
    found = cpu_seconds(node.pid), cpu_seconds(stage.server.pid)
    return None if found[0] is None or found[1] is None else (found[0], found[1])


async def _sustained(arena: Arena, plan: Plan, values: Values) -> TaskTally:
    async with arena.api() as api, arena.node():
        loaded = await _batches(api, plan.tasks, SUSTAINED_CONNECTIONS)
        settled = await arena.settled(START_SECONDS + loaded.accepted / SLOWEST_RATE)
        values["sustained"] = loaded.accepted / (settled - loaded.began)
        return TaskTally("sustained", loaded.accepted, await arena.completed())


def comparisons(ours: Sequence[Values], theirs: Sequence[Values]) -> list[Comparison]:
    """The medians of both sides, and the median of the ratios of each pair with its interval."""
    found = []
    for name, quantity in QUANTITIES.items():
        pairs = [
            (own[name], other[name])
            for own, other in zip(ours, theirs, strict=True)
            if name in own and name in other
        ]
        if pairs:
            ratios = [own / other for own, other in pairs]
            interval = median_interval(ratios)
            found.append(
                Comparison(
                    name=name,
                    quantity=quantity,
                    pairs=pairs,
                    ratio=median(ratios),
                    interval=interval,
                    verdict=verdict(interval, quantity),
                )
            )
    return found


def verdict(interval: Interval, quantity: Quantity) -> str:
    """What may be said; with too few pairs, nothing."""
    if interval.confidence < 0.9:
        return "too few pairs"
    if not interval.excludes(1.0):
        return "no difference"
    better = (interval.low > 1.0) is quantity.higher_is_better
    return "better" if better else "worse"


def show(console: Console, commit: str, found: Sequence[Comparison]) -> None:
    table = Table(title=f"This tree against {commit}", title_justify="left")
    table.add_column("measure")
    table.add_column("this", justify="right", no_wrap=True)
    table.add_column(commit[:7], justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("")
    for line in found:
        ours, theirs = (number(median(side)) for side in zip(*line.pairs, strict=True))
        interval = f"{line.interval.low:.3f} to {line.interval.high:.3f}"
        table.add_row(
            f"{line.quantity.title} {line.quantity.unit}",
            *(ours, theirs, f"{line.ratio:.3f}", interval, line.verdict),
        )
    console.print(table)
    if found:
        first = found[0]
        console.print(
            f"Medians of {len(first.pairs)} pairs; the ratio is the median of the pairs' ratios,\n"
            f"its interval holds with {first.interval.confidence:.0%}. Compare a commit with "
            "itself to see the noise.",
            style="dim",
        )
