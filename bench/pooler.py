"""What PgBouncer in between costs: the same submission and the same drain, with and without it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from rich.progress import Progress
from tests.pooler import MISSING, PgBouncer, program

from bench.stage import Stage
from gnomon.bench import submission
from gnomon.bench.arena import Arena
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import Findings, Measure, TaskTally, number
from gnomon.model.targets.target import PythonTarget
from gnomon.store.postgres.database import Database

POOL_SIZE = 20  # PgBouncer's own default
STATEMENTS = 1_000
WAYS = {"direct": "straight to PostgreSQL", "pooled": f"through PgBouncer, {POOL_SIZE} servers"}


async def run(
    stage: Stage, tasks: int, seconds: float, rounds: int, progress: Progress
) -> Findings:
    findings = Findings()
    if program() is None:
        findings.add([Measure("pooler_ratio", "PgBouncer", None, note=MISSING)])
        return findings
    bar = progress.add_task("", total=rounds * len(WAYS))
    values: dict[str, list[float]] = {}
    folder = stage.folder / "pgbouncer"
    folder.mkdir()
    bouncer = PgBouncer(stage.server.dsn, folder, POOL_SIZE)
    bouncer.start()
    try:
        for _ in range(rounds):  # in turn, so that both meet the same weather
            for way, title in WAYS.items():
                progress.update(bar, description=title)
                async with _arena(stage, bouncer if way == "pooled" else None) as arena:
                    values.setdefault(f"statement_{way}", []).append(await _statement(arena.dsn))
                    submitted, stored = await _submit(arena, way, seconds)
                async with _arena(stage, bouncer if way == "pooled" else None) as arena:
                    drained, done = await _drain(arena, way, tasks)
                findings.add([], stored, done)
                values.setdefault(f"submit_{way}", []).append(submitted)
                values.setdefault(f"drain_{way}", []).append(drained)
                progress.advance(bar)
    finally:
        bouncer.kill()
    findings.add(_measures(values, tasks))
    return findings


@asynccontextmanager
async def _arena(stage: Stage, bouncer: PgBouncer | None) -> AsyncIterator[Arena]:
    """Processes find the database by `dsn`; what is measured is looked at past the pooler."""
    async with stage.arena() as arena:
        if bouncer is not None:
            arena.dsn = bouncer.to(arena.dsn)
        yield arena


async def _statement(dsn: str) -> float:
    """Milliseconds of one small statement, with nothing else going on."""
    database = Database(dsn, 1)
    await database.open()
    took = []
    for _ in range(STATEMENTS):
        began = time.perf_counter()
        await database.fetchrow("ping")
        took.append((time.perf_counter() - began) * 1000)
    await database.close()
    return median(took)


async def _submit(arena: Arena, way: str, seconds: float) -> tuple[float, TaskTally]:
    connections = submission.CONNECTIONS
    async with arena.api() as api:
        await submission.submit(api, connections=connections, seconds=seconds / 5)  # warm up
        before = await arena.live()
        await arena.rest()
        loaded = await submission.submit(api, connections=connections, seconds=seconds)
        tally = TaskTally(f"submit_{way}", loaded.accepted, await arena.live() - before)
    return loaded.accepted / (loaded.ended - loaded.began), tally


async def _drain(arena: Arena, way: str, tasks: int) -> tuple[float, TaskTally]:
    await arena.preload(PythonTarget("noop"), tasks)
    async with arena.node() as node:
        settled = await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
    return tasks / (settled - node.ready_at), TaskTally(
        f"drain_{way}", tasks, await arena.completed()
    )


def _measures(values: dict[str, list[float]], tasks: int) -> list[Measure]:
    found = []
    kinds = {
        "statement": ("ms", "alone"),
        "submit": ("/s", "one task a request"),
        "drain": ("/s", f"{tasks} tasks, from the node being ready"),
    }
    for what, (unit, note) in kinds.items():
        middle = {way: median(values[f"{what}_{way}"]) for way in WAYS}
        for way, title in WAYS.items():
            rounds = ", ".join(number(value) for value in values[f"{what}_{way}"])
            text = f"{note}; median of {rounds}"
            found.append(Measure(f"{what}_{way}", f"{what}, {title}", middle[way], unit, note=text))
        ratio = middle["pooled"] / middle["direct"]
        found.append(Measure(f"{what}_ratio", f"{what}, ratio", ratio))
    return found
