"""How fast one node works off a backlog of webhooks."""

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.trees import ROOT
from gnomon.bench.arena import Arenas
from gnomon.bench.drain import drain
from gnomon.bench.results import Measure, TaskTally, at_least
from gnomon.bench.sizes import Sizes
from gnomon.model.targets.target import HttpTarget


async def measure(arenas: Arenas, sizes: Sizes) -> tuple[list[Measure], list[TaskTally]]:
    async with receiving() as url:
        _, ready, steady, tally = await drain(arenas, "webhooks", HttpTarget(url), sizes.webhooks)
        received, _ = await received_by(url)
    tally = TaskTally(
        "webhooks", tally.submitted, min(tally.completed, received), 0, received - tally.submitted
    )
    note = f"{sizes.webhooks} calls to a receiver on this machine"
    measures = [
        Measure(
            "webhook_rate",
            "webhooks, from the node being ready",
            ready,
            "/s",
            at_least(6_000),
            note,
        ),
        Measure("webhook_rate_steady", "webhooks, without the first and last tenth", steady, "/s"),
    ]
    return measures, [tally]


@asynccontextmanager
async def receiving(hold: float = 0.0) -> AsyncIterator[str]:
    """A receiver that answers after so many seconds. Gives its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.receiver", str(hold)),
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


async def received_by(url: str) -> tuple[int, int]:
    """How many calls came to that receiver, and how many of them were under way at once."""
    count, most = (await asyncio.to_thread(_read, url)).split()
    return int(count), int(most)


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
        return content
