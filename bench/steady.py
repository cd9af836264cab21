"""A steady load for a long time, with an open snapshot now and then: is every window as good as the
others? Nothing is analyzed or vacuumed by hand."""

import asyncio
import math
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import msgspec
from rich.progress import Progress

from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.load import Loaded
from gnomon.bench.results import Findings, Measure, TaskTally, at_least
from gnomon.bench.submission import BATCH, submit

LEAST = 0.8  # of the mean, in every window
CONNECTIONS = 4
WARM_BATCHES = 2
_WINDOWS = """
SELECT floor((extract(epoch FROM finished_at) - $1::float8) / $2::float8)::integer AS part,
    count(*) AS tasks,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY started_at - execute_at) AS p99
FROM gnomon.task_archive
WHERE finished_at >= to_timestamp($1)
GROUP BY 1 ORDER BY 1
"""
_WIDTH, _HEIGHT, _MARGIN = 840, 260, 40


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it."""

    seconds: float
    rate: float  # tasks a second, planned
    window: float  # seconds
    snapshot_every: float  # seconds from one open snapshot to the next; 0: none
    snapshot_seconds: float  # that each is open


class Window(msgspec.Struct, frozen=True):
    """Tasks settled a second, and how late 99 of 100 had started, in seconds."""

    rate: float
    p99: float


async def run(stage: Stage, plan: Plan, folder: Path | None, progress: Progress) -> Findings:
    bar = progress.add_task("steady load", total=math.ceil(plan.seconds))
    async with stage.arena() as arena, arena.api() as api, arena.node() as node:
        warm = await submit(api, connections=CONNECTIONS, tasks=BATCH, requests=WARM_BATCHES)
        await arena.settled(START_SECONDS)
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(_beside(arena, plan, progress, bar))
            loaded = await submit(
                api, connections=CONNECTIONS, tasks=BATCH, rate=plan.rate / BATCH,
                seconds=plan.seconds,
            )  # fmt: skip
            beside.cancel()
        backlog = await arena.live()
        await arena.settled(START_SECONDS + loaded.accepted / SLOWEST_RATE)
        memory = node.peak_memory()
        windows = await _windows(arena, plan, loaded)
        tally = TaskTally("steady", warm.accepted + loaded.accepted, await arena.completed())
    findings = Findings()
    findings.add(_measures(plan, windows, backlog, memory), tally)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "steady.svg").write_text(picture(windows, plan.window))
    return findings


async def _beside(arena: Arena, plan: Plan, progress: Progress, bar: object) -> None:
    """Open a snapshot now and then, as a report or a backup does, until cancelled."""
    began, last = time.monotonic(), 0.0
    while True:
        passed = time.monotonic() - began
        progress.update(bar, completed=min(plan.seconds, passed))  # type: ignore[arg-type]
        if plan.snapshot_every and passed - last >= plan.snapshot_every:
            last = passed
            await _snapshot(arena.dsn, plan.snapshot_seconds)
        await asyncio.sleep(0.5)


async def _snapshot(dsn: str, seconds: float) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetchval("SELECT count(*) FROM gnomon.task")
            await asyncio.sleep(seconds)
    finally:
        connection.terminate()


async def _windows(arena: Arena, plan: Plan, loaded: Loaded) -> list[Window]:
    """Whole windows of the load."""
    rows = await arena.connection.fetch(_WINDOWS, loaded.began, plan.window)
    found = {row["part"]: row for row in rows}
    whole = max(1, math.floor(plan.seconds / plan.window))
    return [
        Window(row["tasks"] / plan.window, row["p99"].total_seconds())
        if (row := found.get(part)) is not None
        else Window(0.0, math.inf)
        for part in range(whole)
    ]


def _measures(
    plan: Plan, windows: Sequence[Window], backlog: int, memory: int | None
) -> list[Measure]:
    rates = [window.rate for window in windows]
    mean = sum(rates) / len(rates)
    low = min(rates) / mean if mean else 0.0
    note = (
        f"{len(windows)} windows of {plan.window:g} s; {sum(r < LEAST * mean for r in rates)} below"
    )
    worst = max(window.p99 for window in windows) * 1000
    measures = [
        Measure("steady_rate", "steady: settled", mean, "/s", at_least(0.97 * plan.rate),
                f"{plan.rate:g} /s planned for {plan.seconds:g} s"),
        Measure("steady_lowest", "steady: lowest window : mean", low, "", at_least(LEAST), note),
        Measure("steady_p99", "steady: start delay p99 of the worst window", worst, "ms"),
        Measure("steady_backlog", "steady: live when submission ended", backlog, "tasks"),
    ]  # fmt: skip
    if memory is not None:
        title = "steady: memory of the node at the most"
        measures.append(Measure("steady_memory", title, memory / 1e6, "MB"))
    return measures


def picture(windows: Sequence[Window], seconds: float) -> str:
    """The rate of each window as a line, with the mean and the least that is allowed."""
    rates = [window.rate for window in windows]
    mean, top = sum(rates) / len(rates), max(*rates, 1.0) * 1.1
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(rates) - 1)

    def y(rate: float) -> float:
        return _HEIGHT - _MARGIN - rate / top * (_HEIGHT - 2 * _MARGIN)

    points = " ".join(f"{_MARGIN + n * step:.1f},{y(rate):.1f}" for n, rate in enumerate(rates))
    lines = [
        f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" '
        f'stroke="#94a3b8"/><text x="{_MARGIN}" y="{y(rate) - 4:.1f}" font-size="11">'
        f"{words}: {rate:.0f} /s</text>"
        for words, rate in (("mean", mean), (f"{LEAST:g} of it", LEAST * mean))
    ]
    title = f"Tasks settled a second, in windows of {seconds:g} s"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" role="img">\n<title>{title}</title>\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="16" y="24" font-size="15">{title}</text>\n'
        + "\n".join(lines)
        + f'\n<polyline points="{points}" fill="none" stroke="#b45309"/>\n</svg>\n'
    )
