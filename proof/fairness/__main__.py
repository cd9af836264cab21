"""`make fairness`: what is promised between tenants and between priorities, with its figures."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from proof.fairness.scenarios import SCENARIOS, Finding, Size
from proof.fairness.world import world


async def run(name: str, size: Size) -> Finding:
    with tempfile.TemporaryDirectory(prefix="fairness-") as folder:
        async with world(Path(folder)) as made:
            return await SCENARIOS[name](made, size)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fairness", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help=f"of {', '.join(SCENARIOS)}; else all")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0, help="that are measured")
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--probes", type=int, default=200)
    parser.add_argument("--bound", type=float, default=1.0, help="of aging, in seconds")
    asked = parser.parse_args()
    size = Size(asked.nodes, asked.seconds, asked.backlog, asked.probes, asked.bound)
    holds = True
    for name in asked.scenarios or SCENARIOS:
        found = asyncio.run(run(name, size))
        print(found.readable(), flush=True)
        holds &= found.holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
