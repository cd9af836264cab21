"""Claim path, drain and start delay, with millions of scheduled tasks in the table and with none.

Both tables are measured in turn, round by round, so that whatever else the machine does meets both.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from uuid import UUID

import msgspec
from rich.progress import Progress

from bench.filling import fill
from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.latency import herd
from gnomon.bench.results import (
    BenchError,
    Findings,
    Measure,
    TaskTally,
    at_least,
    at_most,
    percentile,
)
from gnomon.clock import new_incarnation
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings import Settings
from gnomon.store.ports.dispatch import BEGINNING, Cursor, Entry, Settlement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster

DUE = 20_000
BATCH = 1_000
HERD, HERD_ROUNDS = 1_000, 3
WITHIN = 1.3  # of an empty table
DRAIN_SECONDS = 120.0
_LOOK_SECONDS = 0.02
_LOWEST = UUID(int=0)

_SIZES = """
SELECT relname, pg_relation_size(oid) AS bytes FROM pg_class
WHERE oid = 'gnomon.task'::regclass
   OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'gnomon.task'::regclass)
ORDER BY relkind DESC, relname
"""


class Pass(msgspec.Struct, frozen=True):
    """Seconds that each step took for all due tasks."""

    scan: float
    claim: float
    settle: float

    @property
    def rate(self) -> float:
        return DUE / (self.scan + self.claim + self.settle)


class Side:
    """One of the two tables, and what was seen there."""

    def __init__(self, arena: Arena, database: Database) -> None:
        self.arena = arena
        self.database = database
        self.passes: list[Pass] = []
        self.drains: list[float] = []  # tasks a second
        self.delays: list[float] = []
        self.memory: int | None = None

    async def claim_all(self) -> None:
        await self.arena.preload(PythonTarget("noop"), DUE, rest=False)
        self.passes.append(await _claim_all(self.database))

    async def drain(self) -> None:
        """Work off what is due by a node of its own, from when it is ready."""
        wanted = await self.arena.completed() + DUE
        await self.arena.preload(PythonTarget("noop"), DUE, rest=False)
        async with self.arena.node() as node:
            deadline = time.monotonic() + DRAIN_SECONDS
            while await self.arena.completed() < wanted:
                if time.monotonic() > deadline:
                    raise BenchError(f"tasks were still live after {DRAIN_SECONDS:g} s")
                await asyncio.sleep(_LOOK_SECONDS)
            self.drains.append(DUE / (time.time() - node.ready_at))

    async def start_at_one_instant(self) -> None:
        async with self.arena.api() as api, self.arena.node() as node:
            self.delays = await herd(self.arena, api, HERD, HERD_ROUNDS)
            self.memory = node.peak_memory()

    @property
    def early(self) -> int:
        return sum(delay < 0 for delay in self.delays)

    def median_of(self, step: str) -> float:
        values: list[float] = [getattr(each, step) for each in self.passes]
        return median(values)


async def run(stage: Stage, rows: int, rounds: int, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("loading", total=rows)
    async with stage.arena() as small, stage.arena() as large:
        loaded_in = await _load(large, rows, lambda count: progress.advance(bar, count))
        sizes = await large.connection.fetch(_SIZES)
        await small.rest()
        sides = [await _side(small), await _side(large)]
        try:
            bar = progress.add_task("claiming, and starting at one instant", total=rounds + 1)
            for _ in range(rounds):
                for side in sides:
                    await side.claim_all()
                for side in sides:
                    await side.drain()
                progress.advance(bar)
            for side in sides:
                await side.start_at_one_instant()
            progress.advance(bar)
        finally:
            for side in sides:
                await side.database.close()
        tasks = 2 * DUE * rounds + HERD * HERD_ROUNDS
        tallies = [
            TaskTally(name, tasks, await side.arena.completed(), side.early)
            for name, side in zip(("claim_empty", "claim_full"), sides, strict=True)
        ]
    findings.add(_measures(*sides), *tallies)
    findings.add([Measure("load_seconds", f"loading {rows} tasks by SQL", loaded_in, "s")])
    findings.add(
        [
            Measure(f"size_{row['relname']}", f"size of {row['relname']}", row["bytes"] / 1e6, "MB")
            for row in sizes
        ]
    )
    return findings


def _measures(empty: Side, full: Side) -> list[Measure]:
    rates = empty.median_of("rate"), full.median_of("rate")
    p99 = percentile(empty.delays, 0.99) * 1000, percentile(full.delays, 0.99) * 1000
    note = f"scan, claim and settle {DUE} due tasks, batches of {BATCH}, median round"
    measures = [
        Measure("claim_empty_rate", "claim path, empty table", rates[0], "/s", note=note),
        Measure("claim_full_rate", "claim path, full table", rates[1], "/s"),
        Measure("claim_ratio", "claim path, full : empty", rates[1] / rates[0], "x",
                at_least(round(1 / WITHIN, 2))),
    ]  # fmt: skip
    for step in ("scan", "claim", "settle"):
        for name, side in (("empty", empty), ("full", full)):
            micros = side.median_of(step) / DUE * 1e6
            measures.append(Measure(f"{step}_{name}", f"{step} a task, {name} table", micros, "µs"))
    drains = median(empty.drains), median(full.drains)
    measures += [
        Measure("drain_empty", "drain, empty table", drains[0], "/s",
                note=f"{DUE} no-ops, from the node being ready, median round"),
        Measure("drain_full", "drain, full table", drains[1], "/s"),
        Measure("drain_ratio", "drain, full : empty", drains[1] / drains[0], "x",
                at_least(round(1 / WITHIN, 2))),
        Measure("herd_empty_p99", "start delay p99, empty table", p99[0], "ms",
                note=f"{HERD} tasks due at one instant, {HERD_ROUNDS} rounds"),
        Measure("herd_full_p99", "start delay p99, full table", p99[1], "ms"),
        Measure("herd_ratio", "start delay p99, full : empty", p99[1] / p99[0], "x",
                at_most(WITHIN)),
    ]  # fmt: skip
    early = empty.early + full.early
    measures.append(Measure("herd_early", "began early", early, "tasks", at_most(0)))
    for name, side in (("empty", empty), ("full", full)):
        if side.memory is not None:
            title = f"node memory at its peak, {name} table"
            measures.append(Measure(f"node_memory_{name}", title, side.memory / 1e6, "MB"))
    return measures


async def _load(arena: Arena, rows: int, advance: Callable[[int], None]) -> float:
    began = time.perf_counter()
    await fill(arena, rows, DEFAULT_TENANT, advance)
    took = time.perf_counter() - began
    await arena.rest()
    return took


async def _side(arena: Arena) -> Side:
    database = Database(arena.dsn, 2)
    await database.open()
    return Side(arena, database)


async def _claim_all(database: Database) -> Pass:
    """What a node does with due tasks, without running them."""
    store, incarnation = PostgresDispatch(database, 10.0), new_incarnation()
    roster = PostgresRoster(database)
    await roster.join(incarnation, "bench", 1, 3600.0)
    began = time.perf_counter()
    entries = await _scan(store)
    scan, claim, settle = time.perf_counter() - began, 0.0, 0.0
    for first in range(0, len(entries), BATCH):
        began = time.perf_counter()
        keys = [entry.key for entry in entries[first : first + BATCH]]
        claimed = await store.claim(incarnation, keys)
        claim += time.perf_counter() - began
        began = time.perf_counter()
        now = time.time()
        settled = await store.settle(
            [
                Settlement(
                    key=delivery.key,
                    fence=delivery.fence,
                    incarnation=incarnation,
                    verdict=COMPLETE,
                    outcome=OutcomeKind.SUCCEEDED,
                    started_at=now,
                    finished_at=now,
                    worker="bench",
                )
                for delivery in claimed.deliveries
            ]
        )
        settle += time.perf_counter() - began
        if len(settled) != len(keys):
            raise BenchError(f"{len(settled)} of {len(keys)} tasks were claimed and settled")
    await roster.leave(incarnation)
    return Pass(scan, claim, settle)


async def _scan(store: PostgresDispatch) -> list[Entry]:
    """Read all that is due, as the scanner does: some of every shard, again and again."""
    each = Settings().node.window * 3 // 4 // SHARDS
    until = datetime.now(UTC) + timedelta(seconds=Settings().node.horizon_seconds)
    cursors = {shard: Cursor(shard, BEGINNING, _LOWEST) for shard in range(SHARDS)}
    entries: list[Entry] = []
    while cursors:
        found = await store.scan(list(cursors.values()), until, each)
        entries += found
        cursors = _read_on(found, each)
    if len(entries) != DUE:
        raise BenchError(f"the scan found {len(entries)} of {DUE} due tasks")
    return entries


def _read_on(found: Sequence[Entry], each: int) -> dict[int, Cursor]:
    """Cursors of the shards that may have more."""
    by_shard: dict[int, list[Entry]] = {}
    for entry in found:
        by_shard.setdefault(shard_of(entry.key.id), []).append(entry)
    return {
        shard: Cursor(shard, last[-1].due_at, last[-1].key.id)
        for shard, last in by_shard.items()
        if len(last) == each
    }
