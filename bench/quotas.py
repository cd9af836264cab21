"""What quotas cost that do not bind: the same submissions to an API that has them, and to one that
has not, in turn and for a short time each."""

import json
from contextlib import AsyncExitStack
from statistics import median

from rich.progress import Progress, TaskID

from bench.stage import Stage
from gnomon.bench import submission
from gnomon.bench.processes import Process, gnomon
from gnomon.bench.results import Findings, Measure, TaskTally, at_least, number

MANY = 1_000_000_000
WAYS = {"none": "no quotas", "room": "scheduled_tasks", "pace": "submissions_per_second as well"}
QUOTAS = {
    "none": {},
    "room": {"scheduled_tasks": MANY},
    "pace": {"scheduled_tasks": MANY, "submissions_per_second": MANY},
}
LOADS = {
    "single": (submission.CONNECTIONS, 1, "one task a request"),
    "batch": (submission.BATCH_CONNECTIONS, submission.BATCH, "batches"),
}
WARM_SECONDS = 3.0  # a tenant's tasks are counted every time until it is known for two seconds


async def run(stage: Stage, seconds: float, rounds: int, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=rounds * len(WAYS) * len(LOADS))
    for kind in LOADS:
        values, tally = await _measure(stage, kind, seconds, rounds, progress, bar)
        findings.add(_measures(kind, values), tally)
    return findings


async def _measure(
    stage: Stage, kind: str, seconds: float, rounds: int, progress: Progress, bar: TaskID
) -> tuple[dict[str, list[float]], TaskTally]:
    connections, tasks, _ = LOADS[kind]
    values: dict[str, list[float]] = {way: [] for way in WAYS}
    accepted = 0
    async with stage.arena() as arena, AsyncExitStack() as processes:
        apis: dict[str, Process] = {}
        for way in WAYS:
            folder = arena.folder / way
            folder.mkdir()
            # The tenant that needs no key is on the plan `unlimited`, which is another one here.
            plans = json.dumps({"unlimited": QUOTAS[way]})
            serving = gnomon("api", arena.dsn, folder, sharing_plans=plans)
            apis[way] = await processes.enter_async_context(serving)
            warm = await submission.submit(
                apis[way], connections=connections, tasks=tasks, seconds=WARM_SECONDS
            )
            accepted += warm.accepted
        await arena.rest()
        for _ in range(rounds):
            for way, api in apis.items():
                progress.update(bar, description=f"{kind}, {WAYS[way]}")
                loaded = await submission.submit(
                    api, connections=connections, tasks=tasks, seconds=seconds
                )
                accepted += loaded.accepted
                values[way].append(loaded.accepted / (loaded.ended - loaded.began))
                progress.advance(bar)
        return values, TaskTally(kind, accepted, await arena.live())


def _measures(kind: str, values: dict[str, list[float]]) -> list[Measure]:
    found = []
    for way, title in WAYS.items():
        note = f"{LOADS[kind][2]}; from {number(min(values[way]))} to {number(max(values[way]))}"
        rate = median(values[way])
        found.append(Measure(f"{kind}_{way}", f"{kind}, {title}", rate, "/s", note=note))
    for way in ("room", "pace"):
        ratios = [a / b for a, b in zip(values[way], values["none"], strict=True)]
        note = f"median of {len(ratios)} pairs"
        title = f"{kind}, ratio: {WAYS[way]}"
        found.append(Measure(f"{kind}_{way}_ratio", title, median(ratios), "", at_least(0.9), note))
    return found
