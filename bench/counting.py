"""What metrics and activity cost, or metrics alone: the processor time of a task, counted and not,
in turn."""

from rich.progress import Progress

from bench.cost import Spent, drain, each_task, ratio
from bench.rounds import turns
from bench.stage import Stage
from bench.trees import APP
from gnomon.bench.results import Findings

GOAL = 1.02
WAYS = "counted", "uncounted"


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
            async with stage.arena() as arena:
                one, tally = await drain(stage, arena, tasks, f"drain_{way}", node_app=apps[way])
            findings.add([], tally)
            spent[way].append(one)
            progress.advance(bar)
    counted, uncounted = spent["counted"], spent["uncounted"]
    findings.add(
        [
            each_task("counted_cpu", "a task, counted", counted),
            each_task("uncounted_cpu", "a task, not counted", uncounted),
            ratio("counting_ratio", "ratio, median of pairs", counted, uncounted, GOAL),
        ]
    )
    return findings
