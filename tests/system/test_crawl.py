"""A short crawl of two tenants over every operation; `make crawl` is the long one."""

import asyncio
from pathlib import Path

import pytest
from proof.crawl.world import crawled
from tests.system.harness import Process

CASES = 250

pytestmark = pytest.mark.system


# What schemathesis and hypothesis deprecate among themselves is not ours to mend.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_two_tenants_see_nothing_of_each_other_in_any_operation(
    database_dsn: str, tmp_path: Path, processes: list[Process]
) -> None:
    api = Process(database_dsn, tmp_path, "api", "api", api_port=0, auth_enabled=True)
    processes.append(api)
    api.start()
    report = await asyncio.to_thread(crawled, await api.started(), database_dsn, CASES, 1)
    assert report.holds, "\n".join(report.lines())
    assert report.findings.cases == CASES
    assert report.compared > 50
    assert report.visits > 200
    assert len(report.findings.keys) == 12  # with keys of every kind, and with none
