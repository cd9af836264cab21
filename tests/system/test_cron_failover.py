"""Nodes die and freeze while jobs fire every second: a short run of `make chaos-cron`."""

from pathlib import Path

import pytest
from proof.cron_chaos.__main__ import readable
from proof.cron_chaos.chaos import Chaos, Plan

# Eight times a process starts: on a machine with other things to do, that takes its time.
pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


async def test_every_fire_has_one_run_while_nodes_come_and_go(
    database_dsn: str, tmp_path: Path
) -> None:
    plan = Plan(
        seconds=11, jobs=60, seed=7, between_kills=(2.5, 3.5), down=(0.2, 1.0), missed_after=3.0
    )
    report = await Chaos(plan, database_dsn, tmp_path, lambda _: None).run()
    print(readable(report))
    assert report.valid
    assert report.judgement.wrong == {}
    assert report.deaths == []
