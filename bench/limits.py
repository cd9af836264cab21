"""What a limit costs that does not bind: the same drain, with and without limiters, in turn."""

from statistics import median

from rich.progress import Progress

from bench.cost import Spent, drain, each_task, ratio
from bench.rounds import turns
from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.results import Findings, Measure, number

GOAL = 1.03
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
    spent: dict[str, list[Spent]] = {way: [] for way in WAYS}
    for order in turns(list(WAYS), rounds):
        for way in order:
            progress.update(bar, description=WAYS[way])
            async with stage.arena() as arena:
                await _limit(arena, way)
                one, tally = await drain(stage, arena, tasks, f"drain_{way}")
            findings.add([], tally)
            spent[way].append(one)
            progress.advance(bar)
    findings.add(_measures(spent, tasks))
    return findings


async def _limit(arena: Arena, way: str) -> None:
    if way != "free":
        await arena.connection.execute(_LIMITER, _MANY if way == "rate" else None)


def _measures(spent: dict[str, list[Spent]], tasks: int) -> list[Measure]:
    found = []
    for way, title in WAYS.items():
        rates = [each.rate for each in spent[way]]
        note = f"{tasks} tasks; median of {', '.join(map(number, rates))}"
        found += [
            Measure(f"limits_{way}", f"drain, {title}", median(rates), "/s", note=note),
            each_task(f"limits_{way}_cpu", f"a task, {title}", spent[way]),
        ]
    for way in ("concurrency", "rate"):
        # Of each round: what a machine can do changes more between rounds than a limit costs.
        title = f"processor time, {WAYS[way]} : none"
        found.append(ratio(f"limits_{way}_ratio", title, spent[way], spent["free"], GOAL))
    return found
