"""How fast one node works off a backlog: of a function that does nothing, and of webhooks."""

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.results import Measure, Tally, at_least
from bench.sizes import Sizes
from bench.stage import Stage
from bench.trees import ROOT
from gnomon.model.targets.target import HttpTarget, PythonTarget, Target

SLOWEST_RATE = 200  # tasks a second; below that a measure is given up
START_SECONDS = 30.0


async def functions(stage: Stage, sizes: Sizes) -> tuple[list[Measure], list[Tally]]:
    started, ready, steady, tally = await _drain(stage, "drain", PythonTarget("noop"), sizes.tasks)
    note = f"{sizes.tasks} tasks, history kept"
    measures = [
        Measure("drain_rate", "drain, from the node being ready", ready, "/s", note=note),
        Measure("drain_rate_with_start", "drain, from the start of its process", started, "/s"),
        Measure("drain_rate_steady", "drain, without the first and last tenth", steady, "/s"),
    ]
    return measures, [tally]


async def webhooks(stage: Stage, sizes: Sizes) -> tuple[list[Measure], list[Tally]]:
    async with _receiver() as url:
        _, ready, steady, tally = await _drain(stage, "webhooks", HttpTarget(url), sizes.webhooks)
        received = int(await asyncio.to_thread(_read, url))
    tally = Tally(
        "webhooks", tally.submitted, min(tally.completed, received), 0, received - tally.submitted
    )
    note = f"{sizes.webhooks} calls to a receiver on this machine"
    measures = [
        Measure(
            "webhook_rate",
            "webhooks, from the node being ready",
            ready,
            "/s",
            at_least(2_000),
            note,
        ),
        Measure("webhook_rate_steady", "webhooks, without the first and last tenth", steady, "/s"),
    ]
    return measures, [tally]


async def _drain(
    stage: Stage, name: str, target: Target, count: int
) -> tuple[float, float, float, Tally]:
    """Tasks a second since the process was started, since it was ready, and in between."""
    async with stage.arena() as arena:
        await arena.preload(target, count)
        async with arena.node() as node:
            settled = await arena.settled(START_SECONDS + count / SLOWEST_RATE)
        tally = Tally(name, count, await arena.completed())
        return (
            count / (settled - node.started_at),
            count / (settled - node.ready_at),
            await arena.steady_rate(),
            tally,
        )


@asynccontextmanager
async def _receiver() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.receiver"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/"
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
        return content
