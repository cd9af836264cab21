"""`make pressure`: steady load, and what others do to the server meanwhile."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from proof.pressure.disturbances import KINDS
from proof.pressure.runs import Result, Size, faults, pause, run
from tests.conftest import migrated

from gnomon.store.embedded import EmbeddedServer


async def on_a_new_server(name: str, size: Size) -> Result:
    # A database that is never analyzed is one on a server that never does it by itself.
    settings = {"autovacuum": "off"} if KINDS[name].fresh else {}
    with tempfile.TemporaryDirectory(prefix="pressure-") as folder:
        with EmbeddedServer(Path(folder) / "data", settings_overrides=settings) as server:
            await migrated(server.dsn)
            result = await run(name, server.dsn, Path(folder), size)
        await pause()
        return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="make pressure", description=__doc__)
    parser.add_argument("runs", nargs="*", help=f"of {', '.join(KINDS)}; else all")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load in each run")
    parser.add_argument("--rate", type=float, default=2750.0, help="tasks a second")
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    asked = parser.parse_args()
    unknown = set(asked.runs) - KINDS.keys()
    if unknown:
        parser.error(f"no run is called {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if asked.seconds < asked.window:
        parser.error(
            "--seconds must hold one --window at least: runs are compared by their windows"
        )
    names = asked.runs or list(KINDS)
    if "calm" not in names:
        names = ["calm", *names]  # what the others are held against
    size = Size(asked.seconds, asked.rate, asked.window)
    calm: Result | None = None
    holds = True
    for number, name in enumerate(names, 1):
        print(f"run {number} of {len(names)}: {name}, {size.seconds:g} s", flush=True)
        result = asyncio.run(on_a_new_server(name, size))
        found = faults(result, calm)
        print(result.readable(), flush=True)
        print(f"  {'HOLDS' if not found else 'FAILS: ' + '; '.join(found)}", flush=True)
        holds &= not found
        calm = result if name == "calm" else calm
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
