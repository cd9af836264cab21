"""`make crawl`: two tenants with keys of every kind over every operation of the API."""

import argparse
import asyncio
import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from proof.crawl.share import crawled_share
from proof.crawl.world import Report, summed
from tests.conftest import FAST, migrated
from tests.system.harness import Process

from gnomon.store.embedded import EmbeddedServer


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crawl", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="requests in all")
    parser.add_argument("--seed", type=int, default=1, help="of the first process")
    parser.add_argument("--jobs", type=int, default=2, help="processes that ask at once")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = _run(Path(folder), asked.cases, asked.seed, asked.jobs)
    seconds = time.monotonic() - began
    print("\n".join(report.lines()))
    cases = report.findings.cases
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"  {cases} cases in {seconds:.0f} s, {cases / seconds:.0f} a second, with "
        f"{spent.ru_utime + spent.ru_stime:.0f} s of processor time"
    )
    return 0 if report.holds else 1


def _run(folder: Path, cases: int, seed: int, jobs: int) -> Report:
    with EmbeddedServer(folder / "data", settings_overrides=FAST) as server:
        asyncio.run(migrated(server.dsn))
        api = Process(server.dsn, folder, "api", "api", api_port=0, auth_enabled=True)
        api.start()
        try:
            url = asyncio.run(api.started())
            shares = [cases // jobs + (job < cases % jobs) for job in range(jobs)]
            one = partial(crawled_share, url, server.dsn)
            fresh = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(jobs, mp_context=fresh) as pool:
                return summed(list(pool.map(one, shares, range(seed, seed + jobs))))
        finally:
            api.close()


if __name__ == "__main__":
    sys.exit(main())
