"""Nodes die and freeze while jobs fire every second: a short run of `make chaos-cron`."""

from pathlib import Path

import pytest
from tests.system.cron_chaos import Chaos, Plan
from tests.system.cron_chaos_main import readable

pytestmark = pytest.mark.system


async def test_every_fire_has_one_run_while_nodes_come_and_go(
    database_dsn: str, tmp_path: Path
) -> None:
    plan = Plan(seconds=12, jobs=60, seed=4, between_kills=(3.0, 4.5), down=(0.2, 1.0))
    report = await Chaos(plan, database_dsn, tmp_path, lambda _: None).run()
    print(readable(report))
    assert report.valid
    assert report.judgement.wrong == {}
    assert report.deaths == []
