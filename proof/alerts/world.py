"""Processes under a normal load, which a fault disturbs: an API, two nodes, a cron job."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from proof.alerts.prometheus import Watched, free_port
from tests.system.harness import Process

NODES = 2
_PAUSE = 0.25  # seconds between two batches
APP = "alert_handlers:app"
CODE = """
import asyncio

from gnomon import Gnomon

app = Gnomon()


@app.task
async def work(seconds: float = 0.01):
    await asyncio.sleep(seconds)


@app.task
async def limited(seconds: float = 300.0):
    await asyncio.sleep(seconds)


@app.task
async def reject():
    raise ValueError("this never works")


@app.task
async def hang():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""


class CountingProcess(Process):
    """A process whose view of the installation is never older than half a second."""

    boot = "import runpy; runpy.run_module('proof.alerts.boot', run_name='__main__')"


class World:
    """What runs, and how a fault reaches it."""

    def __init__(self, dsn: str, folder: Path, **settings: object) -> None:
        (folder / "alert_handlers.py").write_text(CODE)
        self.dsn = dsn
        self.url = ""
        self._ports = [free_port() for _ in range(NODES)]
        given = {"node_app": APP, "node_sweep_seconds": 0.2, **settings}
        self.api = CountingProcess(dsn, folder, "api", "api", "--port", "0", **given)
        self.nodes = [
            CountingProcess(
                dsn,
                folder,
                f"node-{number}",
                "scheduler",
                **{**given, "output_metrics_port": port},
            )
            for number, port in enumerate(self._ports)
        ]
        self._session: aiohttp.ClientSession | None = None

    @property
    def watched(self) -> Watched:
        ports = [self.url.rpartition(":")[2], *self._ports]
        return Watched([f"127.0.0.1:{port}" for port in ports])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        processes = [self.api, *self.nodes]
        try:
            for process in processes:
                process.start()
            self.url = await self.api.started()
            for node in self.nodes:
                await node.started()
            async with aiohttp.ClientSession(f"{self.url}/api/v1/") as self._session:
                yield
        finally:
            for process in processes:
                process.close()

    async def ask(self, method: str, path: str, body: dict[str, Any]) -> int:
        """The status of the answer; 0: there is none."""
        assert self._session is not None
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            timeout = aiohttp.ClientTimeout(10)
            async with self._session.request(method, path, json=body, timeout=timeout) as answer:
                return answer.status
        return 0

    async def submit(self, task_type: str, count: int = 1, **fields: Any) -> int:
        task = {"task_type": task_type, **fields}
        return await self.ask("POST", "tasks/batch", {"tasks": [task] * count})

    async def keep_submitting(self, task_type: str, rate: float, **fields: Any) -> None:
        """So many tasks a second, whether the answers come or not, until it is cancelled."""
        due = 0.0
        async with asyncio.TaskGroup() as group:
            while True:
                due += rate * _PAUSE
                count, due = int(due), due - int(due)
                if count:
                    group.create_task(self.submit(task_type, count, **fields))
                await asyncio.sleep(_PAUSE)

    async def normal_load(self) -> None:
        """Twenty tasks a second and a job that fires every second."""
        job = {"task_type": "work", "cron_expression": "* * * * * *"}
        assert await self.ask("PUT", "cron-jobs/tick", job) in (201, 507)  # 507: there is no room
        await self.keep_submitting("work", 20)

    async def limit(self, task_type: str) -> None:
        """One task of that type holds what lets it run, for minutes."""
        body = {"concurrency": 1, "task_type": task_type}
        assert await self.ask("PUT", f"limiters/{task_type}", body) == 201
        await asyncio.sleep(2)  # by then every node follows
        assert await self.submit(task_type, timeout_seconds=600) == 202
