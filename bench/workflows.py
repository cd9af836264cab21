"""What workflows cost: a fan-in beside plain tasks, and a step of a chain beside lone tasks."""

from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import median

from rich.progress import Progress

from bench.stage import Stage
from gnomon.bench.arena import PAYLOAD, Arena, store_on
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.latency import lone
from gnomon.bench.results import Findings, Measure, TaskTally, at_most, number
from gnomon.clock import new_id
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.ports.work.workflows import NewNode, NewWorkflowRun
from gnomon.workflow.graph import GraphNode

_BETWEEN = "end of a step to the start of the next"
_LONE = 200  # tasks
_GAPS = """
WITH step AS (
    SELECT started_at, finished_at, lag(finished_at) OVER (ORDER BY started_at) AS before
    FROM gnomon.task_archive
), gap AS (
    SELECT 1000 * extract(epoch FROM started_at - before) AS ms FROM step WHERE before IS NOT NULL
)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) AS p99
FROM gap
"""


async def run(stage: Stage, tasks: int, steps: int, rounds: int, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=2 * rounds + 2)
    seconds: dict[str, list[float]] = {"plain": [], "fan_in": []}
    for turn in range(rounds):  # in turn, so that both meet the same weather
        for way in list(seconds) if turn % 2 == 0 else list(seconds)[::-1]:
            progress.update(bar, description=f"{tasks} tasks, {way}")
            async with stage.arena() as arena:
                taken, tally = await _drain(arena, way, tasks)
            findings.add([], tally)
            seconds[way].append(taken)
            progress.advance(bar)
    findings.add(_fan_in(seconds, tasks))
    progress.update(bar, description=f"a chain of {steps}")
    async with stage.arena() as arena:
        measures, tally = await _chain(arena, steps)
    findings.add(measures, tally)
    progress.advance(bar)
    progress.update(bar, description=f"{_LONE} lone tasks")
    async with stage.arena() as arena:
        measures, tally = await _alone(arena)
    findings.add(measures, tally)
    progress.advance(bar)
    return findings


async def _drain(arena: Arena, way: str, tasks: int) -> tuple[float, TaskTally]:
    """Seconds from the node being ready until the last task is settled."""
    if way == "plain":
        await arena.preload(PythonTarget("noop"), tasks)
    else:
        names = tuple(f"n{number}" for number in range(tasks - 1))
        await _store(arena, dict.fromkeys(names, GraphNode()) | {"join": GraphNode(names)})
    async with arena.node() as node:
        settled = await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
    return settled - node.ready_at, TaskTally(f"workflow_{way}", tasks, await arena.completed())


async def _chain(arena: Arena, steps: int) -> tuple[list[Measure], TaskTally]:
    names = [f"n{number}" for number in range(steps)]
    before = [(), *((name,) for name in names)]
    graph = {name: GraphNode(after) for name, after in zip(names, before, strict=False)}
    await _store(arena, graph)
    async with arena.node() as node:
        settled = await arena.settled(START_SECONDS + steps / 20)
    row = await arena.connection.fetchrow(_GAPS)
    assert row is not None
    whole = 1000 * (settled - node.ready_at) / steps
    note = f"a chain of {steps}; whole steps take {whole:.1f} ms"
    measures = [
        Measure("chain_start_p50", f"{_BETWEEN}, p50", float(row["p50"]), "ms", note=note),
        Measure("chain_start_p99", f"{_BETWEEN}, p99", float(row["p99"]), "ms"),
    ]
    return measures, TaskTally("chain", steps, await arena.completed())


async def _alone(arena: Arena) -> tuple[list[Measure], TaskTally]:
    """What a step of a chain is to be compared with."""
    async with arena.api() as api, arena.node():
        from_answer, from_request = await lone(arena, api, _LONE)
        await arena.settled(START_SECONDS)
    note = f"{_LONE} tasks, one at a time"
    measures = [
        Measure("lone_p50", "202 answer to start, p50", median(from_answer), "ms", note=note),
        Measure("lone_request_p50", "request to start, p50", median(from_request), "ms"),
    ]
    return measures, TaskTally("lone", _LONE, await arena.completed())


async def _store(arena: Arena, graph: Mapping[str, GraphNode]) -> None:
    now = datetime.now(UTC)
    nodes = [
        NewNode(
            name,
            node,
            Submission(
                tenant_id=DEFAULT_TENANT,
                id=new_id(now),
                task_type="noop",
                target=PythonTarget("noop"),
                execute_at=now,
                due_at=now,
                payload=PAYLOAD,
            ),
        )
        for name, node in graph.items()
    ]
    made = NewWorkflowRun(
        tenant_id=DEFAULT_TENANT,
        id=new_id(now),
        nodes=nodes,
        input=None,
        created_at=now,
        created_by=None,
    )
    async with store_on(arena.dsn) as store, store.change(DEFAULT_TENANT) as change:
        await change.insert([NewTask(each.task) for each in nodes])
        await change.workflows.insert(made)
    await arena.rest()


def _fan_in(seconds: dict[str, list[float]], tasks: int) -> list[Measure]:
    titles = {"plain": "plain tasks", "fan_in": "nodes, and one that waits for all of them"}
    measures = []
    for way, title in titles.items():
        rates = [tasks / each for each in seconds[way]]
        note = f"{tasks} tasks; median of {', '.join(number(rate) for rate in rates)}"
        measures.append(
            Measure(f"workflow_{way}", f"drain, {title}", median(rates), "/s", note=note)
        )
    ratios = [of / plain for of, plain in zip(seconds["fan_in"], seconds["plain"], strict=True)]
    note = f"median of {', '.join(f'{ratio:.2f}' for ratio in ratios)}"
    title = "time of a fan-in, in that of plain tasks"
    measures.append(Measure("fan_in_ratio", title, median(ratios), "", at_most(1.2), note))
    return measures
