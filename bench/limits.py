"""What a limit costs that does not bind: the same drain, with and without limiters."""

from statistics import median

from rich.progress import Progress

from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import Findings, Measure, TaskTally, at_least, number
from gnomon.model.targets.target import PythonTarget

WAYS = {
    "free": "without a limiter",
    "concurrency": "a limiter of concurrency",
    "rate": "a limiter of concurrency and rate",
}
_LIMITER = """
INSERT INTO gnomon.limiter (tenant_id, name, concurrency, rate, per_seconds)
VALUES ('default', 'wide', 100000, $1, 60)
"""
_MANY = 1_000_000  # starts a minute: more than there will be


async def run(stage: Stage, tasks: int, rounds: int, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=rounds * len(WAYS))
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds):  # in turn, so that all meet the same weather
        ways = list(WAYS) if turn % 2 == 0 else list(WAYS)[::-1]
        for way in ways:
            progress.update(bar, description=WAYS[way])
            async with stage.arena() as arena:
                rate, tally = await _drain(arena, way, tasks)
            findings.add([], tally)
            rates[way].append(rate)
            progress.advance(bar)
    findings.add(_measures(rates, tasks))
    return findings


async def _drain(arena: Arena, way: str, tasks: int) -> tuple[float, TaskTally]:
    if way != "free":
        await arena.connection.execute(_LIMITER, _MANY if way == "rate" else None)
    await arena.preload(PythonTarget("noop"), tasks)
    async with arena.node() as node:
        settled = await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
    return tasks / (settled - node.ready_at), TaskTally(
        f"drain_{way}", tasks, await arena.completed()
    )


def _measures(rates: dict[str, list[float]], tasks: int) -> list[Measure]:
    found = []
    middle = {way: median(rates[way]) for way in WAYS}
    for way, title in WAYS.items():
        note = f"{tasks} tasks; median of {', '.join(number(rate) for rate in rates[way])}"
        found.append(Measure(f"limits_{way}", f"drain, {title}", middle[way], "/s", note=note))
    for way in ("concurrency", "rate"):
        # Of each round: what a machine can do changes more between rounds than a limit costs.
        ratios = [of / free for of, free in zip(rates[way], rates["free"], strict=True)]
        note = f"median of {', '.join(f'{ratio:.2f}' for ratio in ratios)}"
        title = f"ratio, {WAYS[way]}"
        measure = Measure(f"limits_{way}_ratio", title, median(ratios), "", at_least(0.9), note)
        found.append(measure)
    return found
