"""PostgreSQL goes away in the middle of fires, politely and not, and comes back."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from proof.cron_chaos.checker import judge
from proof.cron_chaos.world import CronReceiver, create, definition, storing, unsettled
from tests.system.harness import Process, Truth, eventually, start_server, stop_server

from gnomon.cron.job import Missed, Overlap
from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

JOBS = 30


async def crash(server: EmbeddedServer, truth: Truth) -> None:
    """Kill one backend: PostgreSQL throws out everybody, and recovers by itself."""
    os.kill(await truth.value("SELECT pg_backend_pid()"), signal.SIGKILL)


async def restart(server: EmbeddedServer, truth: Truth) -> None:
    stop_server(server, signal.SIGINT)
    await asyncio.to_thread(start_server, server)


async def kill(server: EmbeddedServer, truth: Truth) -> None:
    stop_server(server, signal.SIGQUIT)
    await asyncio.to_thread(start_server, server)


async def test_every_fire_has_one_run_though_postgresql_went_away(
    own_server: EmbeddedServer,
    processes: list[Process],
    cron_receiver: CronReceiver,
    tmp_path: Path,
) -> None:
    for name in ("first", "second"):
        processes.append(Process(own_server.dsn, tmp_path, name, "scheduler"))
        processes[-1].start()
    for node in processes:
        await node.started()
    jobs = [
        definition(
            f"job-{n}",
            cron_receiver.url(seconds=0.2),
            overlap_policy=Overlap.ALLOW,
            missed_run_policy=Missed.BACKFILL,
        )
        for n in range(JOBS)
    ]
    async with storing(own_server.dsn) as tasks:
        created = await create(tasks, jobs)
    truth = Truth(own_server.dsn)
    try:
        for fault in (restart, kill, crash):
            await fires_after(time.time(), cron_receiver)
            await fault(own_server, truth)
        await fires_after(time.time(), cron_receiver)
        until = time.time()

        async def settled() -> bool:
            return await unsettled(truth, until) == 0

        await eventually(settled)
    finally:
        truth.close()
    judgement = judge(cron_receiver.calls(), created, until)
    print(judgement)
    assert judgement.wrong == {}
    assert all(node.alive for node in processes)


async def fires_after(moment: float, receiver: CronReceiver) -> None:
    """Wait until every job has made a run that is younger than this."""

    async def seen() -> bool:
        return len({c.job for c in receiver.began() if c.fire > moment}) == JOBS

    await eventually(seen)
