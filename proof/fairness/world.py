"""A server, an API with keys and some nodes, for several tenants to quarrel over."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import aiohttp
from tests.conftest import migrated
from tests.integration.identity import bearer, make_key
from tests.system.harness import Process, Truth, eventually

from gnomon.model.tasks.priority import Lane
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.postgres.database import Database

APP = "fair_handlers:app"
TIMEOUT = 3600.0
_CALM = {"node_lease_seconds": 10}  # nobody is killed here
_AT_ONCE = 100_000  # rows in one statement

# What runs in the nodes.
_CODE = """
import asyncio

from gnomon import Gnomon

app = Gnomon()


@app.task
async def work(payload):
    await asyncio.sleep(payload["seconds"])


@app.task
async def never(payload):
    await asyncio.Event().wait()
"""

_BACKLOG = """
INSERT INTO gnomon.task (tenant_id, id, task_type, lane, target, payload, timeout_seconds)
SELECT $1, uuidv7(), $2, $3, $4::json, $5::json, $6 FROM generate_series(1, $7)
"""
# Of tasks that have ended since a moment: how long they ran, and how late they started.
_ENDED = """
SELECT tenant_id, lane, extract(epoch FROM started_at - $1)::float8 AS started,
       extract(epoch FROM finished_at - started_at)::float8 AS ran,
       extract(epoch FROM started_at - execute_at)::float8 AS late
FROM gnomon.task_archive WHERE started_at >= $1 ORDER BY started_at
"""


class Run(NamedTuple):
    """A task that has ended; seconds, `started` since the moment that was asked about."""

    tenant: str
    lane: Lane
    started: float
    ran: float
    late: float


def write_handlers(folder: Path) -> None:
    (folder / "fair_handlers.py").write_text(_CODE)


class World:
    """What the scenarios act on."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.truth = Truth(dsn)
        self._folder = folder
        self._processes: list[Process] = []
        self._keys: dict[str, str] = {}
        self._api = ""

    async def tenant(self, tenant_id: str, weight: float = 1.0) -> None:
        await self.truth.fetch(
            "INSERT INTO gnomon.tenant (id, plan, weight) VALUES ($1, 'unlimited', $2)",
            tenant_id,
            weight,
        )
        database = Database(self.dsn, 2)
        await database.open()
        try:
            _, self._keys[tenant_id] = await make_key(database, tenant_id)
        finally:
            await database.close()

    async def api(self) -> None:
        """Start the API."""
        process = self._start("api", "api", "--port", "0", auth_enabled="true")
        self._api = await process.started()

    async def nodes(self, count: int, **settings: object) -> None:
        """Start nodes, and wait until they serve."""
        names = [f"node-{number}" for number in range(count)]
        # Without a value, as many slots are kept for CRITICAL tasks as anywhere else.
        settings = {"node_app": APP, "node_critical_slots": "", **_CALM, **settings}
        nodes = [self._start(name, "scheduler", **settings) for name in names]
        for node in nodes:
            await node.started()

        async def shared() -> bool:
            # Each says so when it joins, and whenever that changes.
            looks = [look["nodes"] for node in nodes for look in node.said("serving shards")[-1:]]
            return looks.count(count) == count

        await eventually(shared)

    def _start(self, name: str, *command: str, **settings: object) -> Process:
        process = Process(self.dsn, self._folder, name, *command, **settings)
        self._processes.append(process)
        process.start()
        return process

    async def backlog(
        self,
        tenant: str,
        count: int,
        *,
        seconds: float = 0.0,
        lane: Lane = Lane.MEDIUM,
        function: str = "work",
    ) -> None:
        """So many tasks that are due at once, written by plain SQL."""
        target = f'{{"type": "python", "function": "{function}"}}'
        payload = f'{{"seconds": {seconds}}}'
        for begin in range(0, count, _AT_ONCE):
            size = min(_AT_ONCE, count - begin)
            await self.truth.fetch(
                _BACKLOG, tenant, function, int(lane), target, payload, TIMEOUT, size
            )

    async def submit(self, client: aiohttp.ClientSession, tenant: str, **fields: Any) -> UUID:
        """One task over HTTP, as its tenant does it."""
        body = {
            "task_type": "work",
            "target": {"type": "python", "function": "work"},
            "payload": {"seconds": 0.001},
            **fields,
        }
        url, headers = f"{self._api}/api/v1/tasks", bearer(self._keys[tenant])
        async with client.post(url, json=body, headers=headers) as answer:
            assert answer.status == 202, await answer.text()
            return UUID((await answer.json())["task_id"])

    async def waiting(self, tenant: str) -> int:
        count = await self.truth.value(
            "SELECT count(*) FROM gnomon.task WHERE tenant_id = $1 AND state = 0", tenant
        )
        return int(count)

    async def moment(self) -> Any:
        return await self.truth.value("SELECT gnomon.now()")

    async def ended(self, since: Any) -> list[Run]:
        """What has started since, and ended."""
        rows = await self.truth.fetch(_ENDED, since)
        return [
            Run(r["tenant_id"], Lane(r["lane"]), r["started"], r["ran"], r["late"]) for r in rows
        ]

    async def all_ended(self, ids: Sequence[UUID]) -> None:
        await eventually(lambda: self.truth.completed(ids))

    def close(self) -> None:
        for process in self._processes:
            process.close()
        self.truth.close()


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """A world of its own: a new server with its default settings, and no node yet."""
    write_handlers(folder)
    with EmbeddedServer(folder / "data") as server:
        await migrated(server.dsn)
        made = World(server.dsn, folder)
        try:
            yield made
        finally:
            made.close()


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so large a part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def delays(values: Sequence[float]) -> str:
    median, late = (percentile(values, part) * 1000 for part in (0.5, 0.99))
    return f"p50 {median:.0f}, p99 {late:.0f}, max {max(values) * 1000:.0f} ms ({len(values)})"


async def every(seconds: float, count: int) -> AsyncIterator[int]:
    """Numbers at a steady rhythm, however long each takes."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number * seconds - loop.time()))
        yield number
