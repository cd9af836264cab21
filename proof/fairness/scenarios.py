"""What is promised between tenants and between priorities, tried with real processes."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from uuid import UUID

import aiohttp
from proof.fairness.world import Run, World, delays, every, percentile
from tests.system.harness import eventually, submitting

from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Lane

WORK = PythonTarget("work")
LANE_WEIGHTS = {Lane.CRITICAL: 4, Lane.HIGH: 3, Lane.MEDIUM: 2, Lane.LOW: 1}
WITHIN = 0.05  # of a share


class Size(NamedTuple):
    """How much of it."""

    nodes: int = 1
    seconds: float = 30.0  # that are measured
    backlog: int = 1_000_000
    probes: int = 200
    bound: float = 1.0  # of aging


class Finding(NamedTuple):
    """What was seen."""

    name: str
    lines: list[str]
    holds: bool

    def readable(self) -> str:
        verdict = "HOLDS" if self.holds else "FAILS"
        return "\n".join([f"{verdict}: {self.name}", *(f"  {line}" for line in self.lines)])


async def starve(world: World, size: Size) -> Finding:
    """One tenant with a huge backlog, another that submits a task a second."""
    await world.tenant("a")
    await world.tenant("b")
    # So long that a million of them are not done before the probes are.
    await world.backlog("a", size.backlog, seconds=0.01 * size.nodes)
    await world.truth.fetch("ANALYZE gnomon.task")
    await world.api()
    await world.nodes(size.nodes, node_slots=50)
    ahead: list[UUID] = []
    async with aiohttp.ClientSession() as client:
        for number in range(0, size.probes, 4):
            fields = {"delay_seconds": 5.5 + number, "queue": "ahead"}
            ahead.append(await world.submit(client, "b", **fields))
        now = [await world.submit(client, "b") async for _ in every(1.0, size.probes)]
    left = await world.waiting("a")
    await world.all_ended([*now, *ahead])
    late = await _late(world, now)
    late_ahead = await _late(world, ahead)
    return Finding(
        f"a backlog of {size.backlog} holds up nobody else, {size.nodes} nodes",
        [
            f"start delay of what the other submits, one a second: {delays(late)}",
            f"of what it had scheduled ahead:                      {delays(late_ahead)}",
            f"the backlog at the end of that: {left}",
        ],
        left > 0 and percentile(late, 0.99) < 1 and percentile(late_ahead, 0.99) < 1,
    )


async def _late(world: World, ids: list[UUID]) -> list[float]:
    rows = await world.truth.fetch(
        "SELECT extract(epoch FROM started_at - execute_at)::float8 AS late"
        " FROM gnomon.task_archive WHERE id = ANY($1)",
        ids,
    )
    return [row["late"] for row in rows]


async def weights(world: World, size: Size) -> Finding:
    """Two tenants with weights 3 and 1, both backlogged, with tasks of different length."""
    await world.tenant("a", weight=3)
    await world.tenant("b", weight=1)
    enough = int(2000 * size.nodes * (size.seconds + 5))
    await world.backlog("a", enough, seconds=0.005)
    await world.backlog("b", enough // 4, seconds=0.02)
    await world.truth.fetch("ANALYZE gnomon.task")
    await world.nodes(size.nodes, node_slots=10)
    runs = await _measured(world, size)
    backlogged = min(await world.waiting("a"), await world.waiting("b")) > 0
    work: dict[str, float] = defaultdict(float)
    for run in runs:
        work[run.tenant] += run.ran
    share = work["a"] / sum(work.values())
    counts = Counter(run.tenant for run in runs)
    return Finding(
        f"weights 3:1 are shares of running time, {size.nodes} nodes",
        [
            f"running time: a {work['a']:.1f} s, b {work['b']:.1f} s; share of a {share:.4f}, 0.75",
            f"tasks: a {counts['a']} of about 5 ms, b {counts['b']} of about 20 ms",
            f"both backlogged all the time: {backlogged}",
        ],
        backlogged and abs(share / 0.75 - 1) < WITHIN and abs((1 - share) / 0.25 - 1) < WITHIN,
    )


async def _measured(world: World, size: Size) -> list[Run]:
    """What starts while the load is steady, and ends."""
    await asyncio.sleep(3)
    since = await world.moment()
    await asyncio.sleep(size.seconds)
    return [run for run in await world.ended(since) if run.started <= size.seconds - 0.5]


async def lanes(world: World, size: Size) -> Finding:
    """All priorities of one tenant backlogged."""
    for lane, weight in LANE_WEIGHTS.items():
        enough = int(500 * weight * size.nodes * (size.seconds + 5))
        await world.backlog("default", enough, seconds=0.005, lane=lane)
    await world.truth.fetch("ANALYZE gnomon.task")
    # Lanes of a backlog that is being written do not age at the same moment.
    await world.nodes(size.nodes, node_slots=10, sharing_aging_seconds=3600)
    await eventually(lambda: _all_served(world, size.nodes))
    counts = Counter(run.lane for run in await _measured(world, size))
    left = await _waiting(world)
    total = sum(LANE_WEIGHTS.values())
    shares = {lane: counts[lane] / counts.total() for lane in Lane}
    off = {lane: shares[lane] / (LANE_WEIGHTS[lane] / total) - 1 for lane in Lane}
    return Finding(
        f"priorities share by 4:3:2:1, {size.nodes} nodes",
        [f"{lane.name:8} {counts[lane]:7}: {shares[lane]:.4f}, {off[lane]:+.1%}" for lane in Lane],
        all(left[lane] and abs(off[lane]) < WITHIN for lane in Lane),
    )


async def _all_served(world: World, nodes: int) -> bool:
    """Whether every node knows of every lane: at first it reads by time."""
    served = await world.truth.value(
        "SELECT count(DISTINCT (worker, lane)) FROM gnomon.task_archive"
    )
    return int(served) == nodes * len(Lane)


async def aging(world: World, size: Size) -> Finding:
    """More LOW tasks than the weight of LOW lets through in time, while the others are always
    busy: as many wait in each lane, whatever is done."""
    bound = size.bound
    # What is claimed ahead, half a second's work, has had its turn: too much for a short bound.
    prefetch = 0 if bound < 4 else 1000
    await world.nodes(
        1, node_slots=6, node_critical_slots=0, node_prefetch=prefetch, sharing_aging_seconds=bound
    )
    since = await world.moment()
    async with submitting(world.dsn) as submitter:
        async for _ in every(0.05, int(size.seconds * 20)):
            # By weight alone, a tenth of the rate, a LOW task would wait for one and a half bounds.
            low = max(1, round(0.15 * bound * await _rate(world)))
            depths = Counter({Lane.CRITICAL: 16, Lane.HIGH: 12, Lane.MEDIUM: 8, Lane.LOW: low})
            for lane, count in (depths - await _waiting(world)).items():
                await submitter.submit(WORK, count, payload=b'{"seconds": 0.02}', priority=lane)
    runs = [run for run in await world.ended(since) if run.started > 2]
    by_lane = {lane: [run.late for run in runs if run.lane is lane] for lane in Lane}
    share = len(by_lane[Lane.LOW]) / len(runs)
    longest = max(by_lane[Lane.LOW])
    return Finding(
        f"LOW never waits longer than its bound of {bound:g} s, while the others are always busy",
        [
            *(f"{lane.name:8} {delays(late)}" for lane, late in by_lane.items()),
            f"share of LOW {share:.3f}; by its weight 0.100, and a wait of {1.5 * bound:g} s",
            f"the longest wait of LOW {longest:.2f} s",
        ],
        longest <= bound and share > 0.11,
    )


async def _rate(world: World) -> float:
    """How many tasks a second have started of late."""
    started = await world.truth.value(
        "SELECT count(*) FROM gnomon.task_archive"
        " WHERE started_at > gnomon.now() - interval '2 seconds'"
    )
    return int(started) / 2


async def _waiting(world: World) -> Counter[Lane]:
    rows = await world.truth.fetch(
        "SELECT lane, count(*) FROM gnomon.task WHERE state = 0 GROUP BY lane"
    )
    return Counter({Lane(row["lane"]): row["count"] for row in rows})


async def critical(world: World, size: Size) -> Finding:
    """CRITICAL tasks on a node whose other slots are full of long ones."""
    await world.tenant("a")
    await world.backlog("a", 500, seconds=10.0)
    await world.api()
    await world.nodes(1, node_slots=50)

    async def full() -> None:
        while await world.truth.value("SELECT count(*) FROM gnomon.task WHERE state = 1") < 40:
            await asyncio.sleep(0.1)

    await full()
    async with aiohttp.ClientSession() as client:
        urgent = [
            await world.submit(client, "a", priority="CRITICAL")
            async for _ in every(0.2, size.probes)
        ]
    await world.all_ended(urgent)
    late = await _late(world, urgent)
    return Finding(
        "a CRITICAL task on a full node starts within 100 ms",
        [f"start delay: {delays(late)}"],
        percentile(late, 0.99) < 0.1,
    )


async def endless(world: World, size: Size) -> Finding:
    """Tenants whose tasks never end, one after the other, and one whose tasks do."""
    greedy = [f"greedy-{number}" for number in range(4)]
    for tenant in (*greedy, "b"):
        await world.tenant(tenant)
    await world.api()
    await world.nodes(size.nodes, node_slots=100)
    lines = []
    async with aiohttp.ClientSession() as client:
        for tenant in greedy:
            await world.backlog(tenant, 1000, function="never")
            held = await _settled(world, tenant)
            task = await world.submit(client, "b")
            await world.all_ended([task])
            lines.append(f"{tenant} never ends on {held[tenant]} slots; b has run")
    return Finding(
        f"tasks that never end leave slots to others, {size.nodes} nodes of 100 slots",
        lines,
        len(lines) == len(greedy),
    )


async def _settled(world: World, tenant: str) -> Counter[str]:
    """What each holds, once it does not change any more."""
    before: Counter[str] = Counter()
    while True:
        rows = await world.truth.fetch(
            "SELECT tenant_id, count(*) FROM gnomon.task WHERE state = 1 GROUP BY tenant_id"
        )
        held = Counter({row["tenant_id"]: row["count"] for row in rows})
        if held[tenant] and held == before:
            return held
        before = held
        await asyncio.sleep(2)


Scenario = Callable[[World, Size], Awaitable[Finding]]
SCENARIOS: dict[str, Scenario] = {
    "starve": starve,
    "weights": weights,
    "lanes": lanes,
    "aging": aging,
    "critical": critical,
    "endless": endless,
}
