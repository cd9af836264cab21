"""`make crawl`: two tenants over every operation of the API."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.conftest import FAST, migrated
from tests.system.crawl.world import Report, crawled
from tests.system.harness import Process

from gnomon.store.embedded import EmbeddedServer


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crawl", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="requests in all")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = _run(Path(folder), asked.cases, asked.seed)
    print("\n".join(report.lines()))
    return 0 if report.holds else 1


def _run(folder: Path, cases: int, seed: int) -> Report:
    with EmbeddedServer(folder / "data", settings_overrides=FAST) as server:
        asyncio.run(migrated(server.dsn))
        api = Process(server.dsn, folder, "api", "api", api_port=0, authentication=True)
        api.start()
        try:
            return crawled(asyncio.run(api.started()), server.dsn, cases, seed)
        finally:
            api.close()


if __name__ == "__main__":
    sys.exit(main())
