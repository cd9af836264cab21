"""`make floods`: normal work of one address, beside floods that come from another."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec
from proof.floods.scenario import RUNS, Result, Size, faults, run, table
from tests.conftest import migrated

from gnomon.store.embedded import EmbeddedServer


async def on_a_new_server(name: str, size: Size) -> Result:
    with (
        tempfile.TemporaryDirectory(prefix="floods-") as folder,
        EmbeddedServer(Path(folder) / "data") as server,
    ):
        await migrated(server.dsn)
        return await run(name, server.dsn, Path(folder), size)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make floods", description=__doc__)
    for name, default in Size._field_defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = vars(parser.parse_args())
    as_json = asked.pop("json")
    results, wrong = [], []
    for name in RUNS:
        result = asyncio.run(on_a_new_server(name, Size(**asked)))
        results.append(result)
        wrong += [f"{name}: {fault}" for fault in faults(result)]
    if as_json:
        print(msgspec.json.encode([each._asdict() for each in results]).decode())
    else:
        print(table(results))
    for fault in wrong:
        print(f"FAILED: {fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
