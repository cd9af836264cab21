"""`make limits`: limits under load and faults, with what was counted."""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from proof.limits.campaign import Campaign, Result
from tests.conftest import migrated
from tests.system.harness import start_server, stop_server

from gnomon.store.embedded import EmbeddedServer


async def run(folder: Path, nodes: int, seconds: float, seed: int) -> Result:
    chance = random.Random(seed)
    with EmbeddedServer(folder / "data", settings_overrides={"shared_buffers": "64MB"}) as server:
        await migrated(server.dsn)
        campaign = Campaign(server.dsn, folder, nodes, seed)
        async with campaign.under_load():
            ends = time.monotonic() + seconds
            restart_at = time.monotonic() + seconds / 2
            faults: list[Callable[[], Awaitable[None]]] = []
            while time.monotonic() < ends:
                await asyncio.sleep(chance.uniform(1.0, 4.0))
                if not faults:
                    faults = [campaign.kill, campaign.stop, campaign.edit_something]
                    chance.shuffle(faults)
                await faults.pop()()
                if time.monotonic() > restart_at:
                    restart_at = float("inf")
                    await asyncio.to_thread(stop_server, server, signal.SIGINT)
                    await asyncio.to_thread(start_server, server)
                    campaign.done["PostgreSQL restarted"] += 1
            await asyncio.sleep(2.0)
        return await campaign.result()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make limits", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="limits-") as folder:
        result = asyncio.run(run(Path(folder), asked.nodes, asked.seconds, asked.seed))
    print(result.readable(), flush=True)
    return 0 if result.holds else 1


if __name__ == "__main__":
    sys.exit(main())
