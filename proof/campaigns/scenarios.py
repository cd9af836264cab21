"""Shorter campaigns with a plot of their own: each breaks one thing, at a known moment, and asks a
question that the long ones cannot ask."""

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import asyncpg
import msgspec
from proof.campaigns import figures, plot
from proof.campaigns.cluster import Server
from proof.campaigns.faults import POSTGRES
from proof.campaigns.load import Mix
from proof.campaigns.progress import Progress
from proof.campaigns.remote_scenarios import rolling_gateways
from proof.campaigns.setup import Result, Setup, keep
from proof.campaigns.stage import Found, Stage
from proof.campaigns.world import REPLICA, World
from proof.campaigns.world_options import Options

_CALM = Mix(changed=0.0, doomed=0.0)
_BACK_TO_NORMAL = 15.0  # seconds after a node was lost
_SHARDS = 256


async def failover_sync(seed: int, folder: Path, progress: Progress) -> Found:
    """PostgreSQL fails over to a synchronous replica: nothing is lost."""
    setup = Setup(name="failover-sync", seed=seed, seconds=24.0, rate=30.0, faults=[])
    async with World(folder, Options(replica="synchronous")) as world:
        stage = Stage(setup, world, progress)

        async def happening() -> None:
            await asyncio.sleep(10.0)
            at = time.time()
            await world.failover()
            stage.broken("failover", POSTGRES, at)

        result = await stage.play(happening)
    after = _acknowledged_after(result, 4.0)
    return Found(
        result=result,
        held={
            "nothing is lost or otherwise wrong": not result.judgement.wrong,
            f"work goes on after the failover ({after} acknowledged)": after > 0,
        },
    )


def _acknowledged_after(result: Result, seconds: float) -> int:
    """So long after the last fault was over."""
    since = max(f.healed_at for f in result.history.faults) + seconds
    return sum(s.acked_at is not None and s.asked_at >= since for s in result.history.submitted)


async def failover_async(seed: int, folder: Path, progress: Progress) -> Found:
    """PostgreSQL fails over to an asynchronous replica that lags behind. What was lost with the
    primary is known, for its files can be read: the checker must name it, and nothing else."""
    setup = Setup(
        name="failover-async",
        seed=seed,
        seconds=20.0,
        rate=10.0,
        faults=[],
        mix=msgspec.structs.replace(_CALM, single=1.0, longest_delay=2.0),
    )
    lost: set[str] = set()  # ids; one that was not answered may have been stored again since
    touched: set[int] = set()
    async with World(folder, Options(replica="asynchronous")) as world:
        stage = Stage(setup, world, progress)

        async def happening() -> None:
            await asyncio.sleep(8.0)
            at = time.time()
            world.proxies[REPLICA].black_hole()
            await asyncio.sleep(1.0)
            assert world.replica is not None
            after = await _rows(world.replica.dsn)  # as it will be: nothing arrives any more
            old = await world.failover()
            stage.broken("failover", POSTGRES, at)
            before = await _rows_of_dead(old)
            lost.update(before[n][0] for n in before.keys() - after.keys())
            touched.update(n for n, row in before.items() if after.get(n) != row)

        result = await stage.play(happening)
    wrong = result.judgement.wrong
    named = {n for finding in wrong.values() for n, _ in finding.first}
    reported = {n for n, _ in wrong["lost"].first} if "lost" in wrong else set()
    known = {s.n for s in result.history.submitted if s.task_id in lost}
    return Found(
        result=result,
        held={
            f"acknowledged tasks were lost ({len(known)})": bool(known),
            "the checker names exactly them as lost": known == reported,
            "and nothing as wrong that the primary had not taken with it": named <= touched,
        },
        notes=[f"lost: {sorted(known)}"],
    )


async def _rows_of_dead(server: Server) -> dict[int, tuple[str, int, int]]:
    """What a primary had committed when it was killed."""
    await server.start()
    try:
        return await _rows(server.dsn)
    finally:
        await server.kill()


async def _rows(dsn: str) -> dict[int, tuple[str, int, int]]:
    connection = await asyncpg.connect(dsn, timeout=60)
    statement = """
        SELECT (payload->>'n')::bigint, id::text, state, fence FROM gnomon.task
        UNION ALL
        SELECT (payload->>'n')::bigint, id::text, state, fence FROM gnomon.task_archive
    """
    try:
        rows = await connection.fetch(statement)
    finally:
        await connection.close()
    return {n: (task_id, state, fence) for n, task_id, state, fence in rows}


async def disk_full(seed: int, folder: Path, progress: Progress) -> Found:
    """The disk of PostgreSQL fills up, and is emptied again by somebody. Nobody restarts Gnomon."""
    setup = Setup(name="disk-full", seed=seed, seconds=40.0, rate=30.0, faults=[], mix=_CALM)
    statuses: list[int] = []
    async with World(folder, Options(tmpfs_megabytes=192)) as world:
        stage = Stage(setup, world, progress)

        async def happening() -> None:
            assert world.tmpfs is not None
            await asyncio.sleep(8.0)
            at = time.time()
            for _ in range(20):
                world.tmpfs.fill()  # again and again: what others have given up is taken, too
                statuses.append(await _submit_much(world.api_urls[0]))
                await asyncio.sleep(0.5)
            world.tmpfs.free()
            stage.broken("disk_full", POSTGRES, at)

        result = await stage.play(happening)
    deaths = [d for d in world.deaths if d.process.startswith("api")]
    after = _acknowledged_after(result, 0.0)
    return Found(
        result=result,
        held={
            "nothing that was acknowledged is lost, or otherwise wrong": not result.judgement.wrong,
            f"what there is no room for is answered with 507 or 503 ({statuses})": (
                set(statuses) <= {503, 507}
            ),
            f"it recovers by itself ({after} acknowledged afterwards)": after > 0,
            f"no API process has died ({len(deaths)})": not deaths,
        },
    )


async def _submit_much(url: str) -> int:
    """The status of a submission that needs room on the disk. One that finds it is removed."""
    body = {
        "task_type": "filling",
        "callback_url": "http://127.0.0.1:9/",
        "delay_seconds": 86400,
        "payload": [random.random() for _ in range(10_000)],  # cannot be compressed
    }
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(f"{url}/api/v1/", timeout=timeout) as session:
        try:
            async with session.post("tasks", json=body) as answer:
                if answer.status == 202:
                    await session.delete(f"tasks/{(await answer.json())['task_id']}")
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0


async def skew(seed: int, folder: Path, progress: Progress) -> Found:
    """Two of three nodes have wrong clocks, by minutes and by an hour. That excuses nothing."""
    setup = Setup(name="skew", seed=seed, seconds=25.0, rate=30.0, faults=[])
    skews = {"node-1": 300.0, "node-2": -3600.0}
    async with World(folder, Options(skews=skews)) as world:
        stage = Stage(setup, world, progress)

        async def happening() -> None:
            pass

        result = await stage.play(happening)
    counts = result.judgement.counts
    nodes = {call.node for call in result.history.calls if call.node}
    return Found(
        result=result,
        held={
            "nothing is early, or otherwise wrong": not result.judgement.wrong,
            f"nothing is late ({counts['late']})": counts["late"] == 0,
            "the nodes with wrong clocks have worked, too": nodes >= skews.keys(),
        },
        notes=[f"start delay: {_spread(figures.spread(_delays(result)))}"],
    )


def _delays(result: Result) -> list[float]:
    return [d.started_at - d.due_at for d in result.judgement.delays]


def _spread(spread: figures.Spread) -> str:
    return (
        f"p50 {spread.p50 * 1000:.0f} ms, p99 {spread.p99 * 1000:.0f} ms, "
        f"most {spread.most * 1000:.0f} ms, {spread.tasks} tasks"
    )


async def node_loss(seed: int, folder: Path, progress: Progress) -> Found:
    """One of three nodes is killed under load, with the usual lease, and does not come back."""
    lease = 10.0
    setup = Setup(
        name="node-loss",
        seed=seed,
        seconds=50.0,
        rate=60.0,
        lease=lease,
        faults=[],
        mix=msgspec.structs.replace(_CALM, late_commit=0.0, longest_delay=2.0),
    )
    owned_after: list[float] = []
    async with World(folder, Options(lease=lease, downtime=3600.0)) as world:
        stage = Stage(setup, world, progress)

        async def happening() -> None:
            await asyncio.sleep(15.0)
            at = time.time()
            world.kill("node-1")
            stage.broken("kill", "node-1", at)
            while time.time() - at < 3 * lease:
                if _owned(world, ("node-2", "node-3"), nodes=2) == _SHARDS:
                    owned_after.append(time.time() - at)
                    return
                await asyncio.sleep(0.05)

        stage.campaign.to_serve = ("node-2", "node-3", "api-1")
        result = await stage.play(happening)
    normal, back = _recovery(result)
    owned = owned_after[0] if owned_after else float("inf")
    _draw_loss(folder, result)
    return Found(
        result=result,
        held={
            "nothing is wrong": not result.judgement.wrong,
            f"all shards are owned again after {owned:.1f} s (lease + 2 s)": owned <= lease + 2.0,
            f"start delay is back to normal after {back:.1f} s": back <= _BACK_TO_NORMAL,
        },
        notes=[f"before: {_spread(normal)}"],
    )


def _owned(world: World, names: tuple[str, ...], nodes: int) -> int:
    """How many shards these say they serve, as far as they know of so many nodes."""
    total = 0
    for name in names:
        said = world.members[name].log.read_bytes().splitlines()
        serving = [msgspec.json.decode(s) for s in said if b'"serving shards"' in s]
        if serving and serving[-1]["nodes"] == nodes:
            total += serving[-1]["shards"]
    return total


def _recovery(result: Result) -> tuple[figures.Spread, float]:
    """The delays before the fault, and how long after it the last stretch of a second began whose
    p99 was not like that."""
    (fault,) = result.history.faults
    delays = [d._replace(due=d.due - _at(result, fault.at)) for d in _since(result)]
    normal = figures.spread(d.delay for d in delays if d.due < -1.0)
    limit = max(2 * normal.p99, normal.p99 + 0.1)
    slow = [b.at + 0.5 for b in plot.bins(delays, 1.0) if b.at > 0 and b.p99 > limit]
    return normal, max(slow, default=0.0)


def _since(result: Result) -> list[plot.Delay]:
    return figures.since(result.history.began_at, result.judgement.delays)


def _at(result: Result, moment: float) -> float:
    return moment - result.history.began_at


def _draw_loss(folder: Path, result: Result) -> None:
    title = "One of three nodes killed under load, lease 10 s: start delay"
    picture = plot.over_time(title, _since(result), result.history.faults, result.history.began_at)
    (folder / "node-loss.svg").write_text(picture)


Scenario = Callable[[int, Path, Progress], Awaitable[Found]]
SCENARIOS: dict[str, Scenario] = {
    "failover-sync": failover_sync,
    "failover-async": failover_async,
    "disk-full": disk_full,
    "skew": skew,
    "node-loss": node_loss,
    "rolling-gateways": rolling_gateways,
}


async def run(name: str, seed: int, folder: Path, progress: Progress) -> Found:
    """Play one, in a folder that is thrown away; what is worth keeping goes to `folder`."""
    with tempfile.TemporaryDirectory(prefix="gnomon-proof-") as place:
        world = Path(place)
        found = await SCENARIOS[name](seed, world, progress)
        for kept in (*world.glob("*.svg"), *(() if found.passed else world.glob("*.log"))):
            (folder / kept.name).write_bytes(kept.read_bytes())
    keep(folder, found.result.setup, found.result.history)
    return found
