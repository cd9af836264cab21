"""A killer among the tasks of others: submitted again and again, to nodes that others share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from proof.fairness.world import delays
from tests.conftest import migrated
from tests.system.harness import Process, Truth, eventually

from gnomon.model.tasks.lifecycle import State
from gnomon.store.embedded import EmbeddedServer

APP = "poison_handlers:app"
EVIL = "evil"
_PATIENCE = 600.0
_CODE = """
import asyncio, os

from gnomon import Gnomon

app = Gnomon()


@app.task
async def work(payload):
    await asyncio.sleep(payload["seconds"])


@app.task
async def kill(payload):
    await asyncio.sleep(payload["seconds"])
    os._exit(9)
"""
_INSERT = """
INSERT INTO gnomon.task
    (tenant_id, id, task_type, lane, target, payload, timeout_seconds, execute_at, due_at)
SELECT $1, uuidv7(), $2, 2, json_build_object('type', 'python', 'function', $2::text),
    json_build_object('seconds', $3::float8), 600, due, due
FROM generate_series(1, $4) AS n, LATERAL (
    SELECT gnomon.now() + make_interval(secs => 1 + $5::float8 * n / $4) AS due
) AS at
"""
_DELAYS = """
SELECT extract(epoch FROM finished_at - execute_at)::float8 - $1 AS delay
FROM gnomon.task_archive WHERE tenant_id <> $2 AND state = $3
"""


@dataclass(frozen=True)
class Size:
    """How large it is. Seconds, where it says nothing else."""

    nodes: int = 3
    innocents: int = 1000
    tenants: int = 5
    task: float = 2.0  # that each runs for
    spread: float = 20.0  # over which they are due
    killers: int = 5
    every: float = 5.0  # between two killers
    fuse: float = 1.0  # until a killer kills
    bound: float = 40.0  # by which killers may delay an innocent


class Seen(NamedTuple):
    """What came of one run."""

    delays: list[float]
    node_deaths: int
    process_deaths: int
    buried: int  # killers that became dead letters

    def readable(self) -> str:
        return (
            f"innocents late by {delays(self.delays)}; nodes died {self.node_deaths} times, "
            f"processes in quarantine {self.process_deaths}, killers buried {self.buried}"
        )


class World:
    """Nodes that are started again when they die, as a process manager does."""

    def __init__(self, dsn: str, folder: Path, size: Size) -> None:
        (folder / "poison_handlers.py").write_text(_CODE)
        self._size = size
        self._truth = Truth(dsn)
        settings = {"node_app": APP, "node_sweep_seconds": 0.2}
        self._nodes = [
            Process(dsn, folder, f"node-{number}", "scheduler", **settings)
            for number in range(size.nodes)
        ]
        self._deaths = 0

    async def run(self, killers: int) -> Seen:
        size = self._size
        async with self._running():
            each = size.innocents // size.tenants
            for tenant in range(size.tenants):
                await self._submit(f"tenant-{tenant}", "work", size.task, each, size.spread)
            for _ in range(killers):
                await self._submit(EVIL, "kill", size.fuse, 1, 0.0)
                await asyncio.sleep(size.every)
            await eventually(lambda: self._all_ended(killers), timeout=_PATIENCE)
            rows = await self._truth.fetch(_DELAYS, size.task, EVIL, State.COMPLETED)
            said = ("a suspect has killed its process", "a process of suspects died")
            return Seen(
                [row["delay"] for row in rows],
                self._deaths,
                sum(len(node.said(what)) for node in self._nodes for what in said),
                await self._buried(),
            )

    async def _submit(
        self, tenant: str, function: str, seconds: float, count: int, spread: float
    ) -> None:
        await self._truth.fetch(_INSERT, tenant, function, seconds, count, spread)

    async def _all_ended(self, killers: int) -> bool:
        live = await self._truth.value(
            "SELECT count(*) FROM gnomon.task WHERE state <> $1", State.DEAD
        )
        return live == 0 and await self._buried() == killers

    async def _buried(self) -> int:
        count = await self._truth.value(
            "SELECT count(*) FROM gnomon.task WHERE tenant_id = $1 AND state = $2",
            EVIL,
            State.DEAD,
        )
        return int(count)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        for node in self._nodes:
            node.start()
        for node in self._nodes:
            await node.started()
        keeping = asyncio.get_running_loop().create_task(self._keep_running())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            for node in self._nodes:
                node.close()
            self._truth.close()

    async def _keep_running(self) -> None:
        while True:
            for node in self._nodes:
                if not node.alive:
                    self._deaths += 1
                    node.start()
            await asyncio.sleep(0.1)


async def run(folder: Path, size: Size, killers: int) -> Seen:
    """A world of its own, and what is seen in it."""
    folder.mkdir()
    with EmbeddedServer(folder / "data") as server:
        await migrated(server.dsn)
        return await World(server.dsn, folder, size).run(killers)


def judge(calm: Seen, poisoned: Seen, size: Size) -> list[str]:
    """What does not hold."""
    wrong = []
    innocents = size.innocents // size.tenants * size.tenants
    for name, seen in (("calm", calm), ("poisoned", poisoned)):
        if len(seen.delays) != innocents:
            wrong.append(f"{name}: {len(seen.delays)} of {innocents} innocents were completed")
    if poisoned.buried != size.killers:
        wrong.append(f"{poisoned.buried} of {size.killers} killers became dead letters")
    if poisoned.node_deaths > size.killers:
        wrong.append(f"{size.killers} killers took {poisoned.node_deaths} nodes with them")
    later = max(poisoned.delays) - max(calm.delays)
    if later > size.bound:
        wrong.append(f"killers delayed an innocent by {later:.1f} s; {size.bound:g} are the most")
    return wrong
