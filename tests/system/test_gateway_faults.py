"""Gateways that are killed, stopped and started, and PostgreSQL that goes away, under sessions."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import asyncpg
import pytest
from tests.integration.api_calls import submitted
from tests.integration.remote_workers import TestedWorker, opened, task_for
from tests.system.harness import Process, Truth, eventually, start_server, stop_server

from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

TASKS = 200
QUICK = {"gateway_lease_seconds": 6, "node_sweep_seconds": 0.2, "database_connections": 4}


@asynccontextmanager
async def client_of(process: Process) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(await process.started()) as client:
        yield client


async def started(dsn: str, folder: Path, processes: list[Process], name: str) -> Process:
    process = Process(dsn, folder, name, "api", api_port=0, **QUICK)
    processes.append(process)
    process.start()
    await process.started()
    return process


class Loop:
    """A worker that runs by itself: it succeeds with everything, and remembers each execution."""

    def __init__(self, worker: TestedWorker, gateways: list[aiohttp.ClientSession]) -> None:
        self.worker = worker
        self._gateways = gateways
        self.ran: list[tuple[str, int]] = []
        self.refused = 0

    async def run(self) -> None:
        """Go on at the next gateway where one does not answer."""
        worker = self.worker
        while True:
            worker.sequence += 1
            try:
                answer = await worker.ask(worker.body(None, 2.0))
            except (aiohttp.ClientError, AssertionError) as error:
                _check_living(error)
                await asyncio.sleep(0.05)
                self._gateways.append(self._gateways.pop(0))
                worker.api = self._gateways[0]
                continue
            self.refused += sum(not each["accepted"] for each in answer["acknowledged"])
            worker.take(answer)
            for delivery in answer["deliveries"]:
                self.ran.append((delivery["task_id"], delivery["fence"]))
                worker.report(delivery)

    async def beat(self) -> None:
        while True:
            try:
                await self.worker.beat()
            except (aiohttp.ClientError, AssertionError) as error:
                _check_living(error)
            await asyncio.sleep(0.3)


def _check_living(error: Exception) -> None:
    if '"status":410' in str(error):
        raise error


async def archived(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM gnomon.task_archive"))
    finally:
        await connection.close()


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_gateways_that_go_one_after_the_other_repeat_nothing_that_a_worker_holds(
    database_dsn: str, tmp_path: Path, processes: list[Process], truth: Truth, how: str
) -> None:
    del truth
    gateways = [await started(database_dsn, tmp_path, processes, f"api{n}") for n in range(2)]
    async with client_of(gateways[0]) as first, client_of(gateways[1]) as second:
        worker = Loop(await opened(first, slots=20), [first, second])
        async with asyncio.TaskGroup() as group:
            loops = [group.create_task(each) for each in (worker.run(), worker.beat())]
            for _ in range(TASKS // 2):
                await submitted(second, task_for())
            if how == "killed":
                gateways[0].kill()
            else:
                gateways[0].process.terminate()
            for _ in range(TASKS // 2):
                await submitted(second, task_for())

            async def all_done() -> bool:
                return await archived(database_dsn) == TASKS

            await eventually(all_done)
            for loop in loops:
                loop.cancel()
    ran = [task_id for task_id, _ in worker.ran]
    # A claim that a gateway took with it is made again; what reached the worker ran once.
    assert sorted(set(ran)) == sorted(ran)
    assert len(ran) == TASKS


async def test_a_restart_of_postgresql_loses_no_session_and_no_report(
    own_server: EmbeddedServer, tmp_path: Path, processes: list[Process]
) -> None:
    api = await started(own_server.dsn, tmp_path, processes, "api")
    async with client_of(api) as client:
        worker = Loop(await opened(client, slots=20), [client])
        async with asyncio.TaskGroup() as group:
            loops = [group.create_task(each) for each in (worker.run(), worker.beat())]
            for _ in range(50):
                await submitted(client, task_for())
            stop_server(own_server, signal.SIGINT)
            await asyncio.sleep(1)
            start_server(own_server)

            async def submits() -> bool:
                try:
                    await submitted(client, task_for())
                except AssertionError:
                    return False
                return True

            await eventually(submits)

            async def all_done() -> bool:
                return await archived(own_server.dsn) >= 51

            await eventually(all_done)
            for loop in loops:
                loop.cancel()
        assert len({task_id for task_id, _ in worker.ran}) == len(worker.ran)
