"""How Gnomon goes as things grow: drain, sustained rate and start delay beside rows that are
scheduled or archived, with more tenants, and with more nodes.

All sizes of an axis are measured in turn, round by round, so that whatever else the machine does
meets all of them.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

import msgspec
from rich.progress import Progress

from bench.filling import fill
from bench.peers import plots
from bench.peers.quantities import Entrant, Line, PeerQuantity
from bench.rounds import turns
from bench.stage import Stage
from gnomon.bench.arena import Arena, Flow
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.latency import herd
from gnomon.bench.processes import Process
from gnomon.bench.results import Findings, Measure, TaskTally, at_least, at_most, number, percentile
from gnomon.bench.submission import BATCH, submit
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DEFAULT_TENANT

FILLER = "aaa"  # the tenant of rows that are only there; it comes before all others
HERD = 1_000
CONNECTIONS = 2
WITHIN = 1.1  # of the smallest
LOAD_BATCH = 100_000
QUANTITIES = {
    "drain": PeerQuantity("drain", "drain /s", "higher"),
    "sustained": PeerQuantity("sustained", "submit, run and settle /s", "higher"),
    "herd": PeerQuantity("herd", f"{HERD} at one instant, p99 ms", "lower", group="delays"),
}

# Without quotas: the bytes of who has some are counted, once a day, and nobody whose quota is the
# usual one has millions of tasks.
_FILLER = f"INSERT INTO gnomon.tenant (id, plan) VALUES ('{FILLER}', 'unlimited')"
_ARCHIVED = """
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, started_at, finished_at, fence, attempt,
    timeout_seconds, task_type, target, payload, worker
)
SELECT $2, uuidv7(), 2, $3, 0, now(), now(), now(), 1, 1, 30, 'noop',
    '{"type": "python", "function": "noop"}', '{"n": 1}', 'bench'
FROM generate_series(1, $1::integer)
"""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of each axis, and how much is measured at each."""

    axes: dict[str, tuple[int, ...]]
    tasks: int
    seconds: float
    rounds: int


class Point:
    """One size of an axis, and what was seen there."""

    def __init__(self, arena: Arena, size: int, nodes: int, flows: Sequence[Flow]) -> None:
        self.arena = arena
        self.size = size
        self.values: dict[str, list[float]] = {name: [] for name in QUANTITIES}
        self._nodes = nodes
        self._flows = flows
        self._before = 0
        self._submitted = 0

    async def begin(self) -> None:
        self._before = await self.arena.completed()

    async def round(self, plan: Plan) -> None:
        await self._drain(plan.tasks)
        await self._sustained(plan.seconds)

    async def start_at_one_instant(self, rounds: int) -> None:
        async with self.arena.api() as api, self._serving():
            delays = await herd(self.arena, api, HERD, rounds)
            await self.arena.settled(START_SECONDS, after=FILLER)
        late = [delay * 1000 for delay in delays]
        chunks = [late[first : first + HERD] for first in range(0, len(late), HERD)]
        self.values["herd"] = [percentile(chunk, 0.99) for chunk in chunks]
        self._submitted += len(delays)

    async def tally(self, axis: str) -> TaskTally:
        completed = await self.arena.completed() - self._before
        return TaskTally(f"{axis}_{self.size}", self._submitted, completed)

    async def _drain(self, count: int) -> None:
        await self.arena.preload(PythonTarget("noop"), count, rest=False, flows=self._flows)
        async with self._serving() as nodes:
            settled = await self._settled(count)
            self.values["drain"].append(count / (settled - min(node.ready_at for node in nodes)))
        self._submitted += count

    async def _sustained(self, seconds: float) -> None:
        async with self.arena.api() as api, self._serving():
            loaded = await submit(api, connections=CONNECTIONS, tasks=BATCH, seconds=seconds)
            settled = await self._settled(loaded.accepted)
        self.values["sustained"].append(loaded.accepted / (settled - loaded.began))
        self._submitted += loaded.accepted

    async def _settled(self, count: int) -> float:
        return await self.arena.settled(START_SECONDS + count / SLOWEST_RATE, after=FILLER)

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[list[Process]]:
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(self.arena.node()) for _ in range(self._nodes)]


async def _archive(arena: Arena, rows: int) -> None:
    for first in range(0, rows, LOAD_BATCH):
        count = min(LOAD_BATCH, rows - first)
        await arena.connection.execute(_ARCHIVED, count, FILLER, State.COMPLETED)


async def _point(arena: Arena, axis: str, size: int) -> Point:
    flows: Sequence[Flow] = [(DEFAULT_TENANT, Lane.MEDIUM)]
    if axis in ("scheduled", "archived"):
        await arena.connection.execute(_FILLER)
    if axis == "scheduled":
        await fill(arena, size, FILLER)
    elif axis == "archived":
        await _archive(arena, size)
    elif axis == "tenants":
        flows = [(tenant, Lane.MEDIUM) for tenant in await arena.add_tenants(size)]
    await arena.rest()
    point = Point(arena, size, size if axis == "nodes" else 1, flows)
    await point.begin()
    return point


AXES = {
    "scheduled": "scheduled rows in the table",
    "archived": "rows in the archive",
    "tenants": "tenants with due tasks",
    "nodes": "nodes on this machine",
}


async def run(stage: Stage, plan: Plan, folder: Path | None, progress: Progress) -> Findings:
    findings = Findings()
    for axis, sizes in plan.axes.items():
        began = time.monotonic()
        points, tallies = await _axis(stage, axis, sizes, plan, progress)
        findings.add(measures(axis, points), *tallies)
        if folder is not None:
            draw(axis, points, folder)
        took = time.monotonic() - began
        findings.add([Measure(f"growth_{axis}_took", f"{axis}: all of it", took, "s")])
    return findings


async def _axis(
    stage: Stage, axis: str, sizes: Sequence[int], plan: Plan, progress: Progress
) -> tuple[list[Point], list[TaskTally]]:
    bar = progress.add_task(f"{axis}: loading", total=len(sizes) * (plan.rounds + 2))
    async with AsyncExitStack() as stack:
        points = []
        for size in sizes:
            arena = await stack.enter_async_context(stage.arena())
            points.append(await _point(arena, axis, size))
            progress.advance(bar)
        for order in turns(points, plan.rounds):
            for point in order:
                progress.update(bar, description=f"{axis}: {number(point.size)}", advance=1)
                await point.round(plan)
        for point in points:
            await point.start_at_one_instant(plan.rounds)
            progress.advance(bar)
        progress.update(bar, description=f"{axis}: done")
        return points, [await point.tally(axis) for point in points]


def measures(axis: str, points: Sequence[Point]) -> list[Measure]:
    found = []
    for name, quantity in QUANTITIES.items():
        first = median(points[0].values[name])
        for point in points:
            value = median(point.values[name])
            title = f"{AXES[axis]}: {number(point.size)}: {quantity.title}"
            note = f"{value / first:.2f} of the first; {', '.join(map(number, point.values[name]))}"
            found.append(Measure(f"growth_{axis}_{point.size}_{name}", title, value, note=note))
        if axis != "nodes":  # they share this machine's cores
            aim = at_least(round(1 / WITHIN, 2)) if quantity.better == "higher" else at_most(WITHIN)
            title = f"{AXES[axis]}: {quantity.title}, most : least"
            last = median(points[-1].values[name])
            found.append(Measure(f"growth_{axis}_{name}_ratio", title, last / first, "x", aim))
    return found


def draw(axis: str, points: Sequence[Point], folder: Path) -> None:
    """A picture of the axis: a panel for each quantity, a bar for each size."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [Entrant(str(point.size), number(point.size), "", {}, "") for point in points]
    lines = [
        Line(quantity, {str(point.size): list(point.values[name]) for point in points})
        for name, quantity in QUANTITIES.items()
    ]
    picture = plots.picture(f"By {AXES[axis]}: medians, lowest and highest round", lines, sizes)
    (folder / f"growth-{axis}.svg").write_text(picture)
