"""Tenants and priorities beside each other on one node: orders and shares. What is promised about
times is measured by `make fairness`."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from proof.fairness.world import World, write_handlers
from tests.system.harness import eventually

from gnomon.model.tasks.priority import Lane

pytestmark = pytest.mark.system


@pytest.fixture
def world(database_dsn: str, tmp_path: Path) -> Iterator[World]:
    write_handlers(tmp_path)
    made = World(database_dsn, tmp_path)
    yield made
    made.close()


async def ended(world: World, tenant: str, count: int) -> None:
    async def enough() -> bool:
        done = await world.truth.value(
            "SELECT count(*) FROM gnomon.task_archive WHERE tenant_id = $1", tenant
        )
        return int(done) >= count

    await eventually(enough)


async def holds(world: World, tenant: str, count: int) -> None:
    async def so_many() -> bool:
        held = await world.truth.value(
            "SELECT count(*) FROM gnomon.task WHERE tenant_id = $1 AND state = 1", tenant
        )
        return int(held) == count

    await eventually(so_many)


async def test_tenants_share_a_node(world: World) -> None:
    await world.tenant("heavy", weight=3)
    for tenant in ("light", "greedy", "late"):
        await world.tenant(tenant)
    await world.backlog("heavy", 20_000, seconds=0.005)
    await world.nodes(1, node_slots=10, node_critical_slots=0, node_window=2000)
    await ended(world, "heavy", 100)

    # Who comes last does not wait for those who came before.
    await world.backlog("light", 20, seconds=0.005)
    await ended(world, "light", 20)
    assert await world.waiting("heavy") > 10_000

    # Where both wait, they share the time of the slots by weight.
    await world.backlog("light", 2000, seconds=0.01)
    await ended(world, "light", 40)
    since = await world.moment()
    await ended(world, "light", 240)
    work: dict[str, float] = defaultdict(float)
    for run in await world.ended(since):
        work[run.tenant] += run.ran
    assert await world.waiting("light") > 0
    assert work["heavy"] / sum(work.values()) == pytest.approx(0.75, rel=0.1)

    # Tasks that never end get no more slots than leave one to others.
    await world.truth.fetch("DELETE FROM gnomon.task WHERE state = 0")
    await world.backlog("greedy", 50, function="never")
    await holds(world, "greedy", 9)
    await world.backlog("late", 5)
    await ended(world, "late", 5)
    await holds(world, "greedy", 9)


async def test_priorities_share_a_node(world: World) -> None:
    for lane in reversed(Lane):  # so that who came first is no help
        await world.backlog("default", 250, seconds=0.001, lane=lane)
    await world.nodes(1, node_slots=4, node_critical_slots=0, node_prefetch=0)
    await ended(world, "default", 600)
    since = await world.truth.value("SELECT min(started_at) FROM gnomon.task_archive")
    first = (await world.ended(since))[:500]
    shares = Counter(run.lane for run in first)
    for lane, share in zip(Lane, (200, 150, 100, 50), strict=True):
        assert shares[lane] == pytest.approx(share, rel=0.06)
