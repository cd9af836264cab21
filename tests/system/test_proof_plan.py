"""The parts of the proof harness that need no processes: plans, figures, pictures, the ledger, and
that every planted bug can still be planted."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from proof.campaigns import figures, ledger, plot, points, setup, zoo
from proof.campaigns.checker import Delay as Started
from proof.campaigns.faults import (
    API_POINTS,
    FAMILIES,
    NODE_POINTS,
    REDIS_RATES,
    Options,
    Planned,
    plan,
)
from proof.campaigns.history import Call, Fault, Final, History, Submitted

FULL = Options(seconds=1080.0)


def test_the_same_seed_gives_the_same_faults() -> None:
    assert plan(7, FULL) == plan(7, FULL)
    assert plan(7, FULL) != plan(8, FULL)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_full_campaign_has_enough_of_everything(seed: int) -> None:
    count = Counter(fault.kind for fault in plan(seed, FULL))
    families = {name: sum(count[kind] for kind in kinds) for name, kinds in FAMILIES.items()}
    wanted = {"kills": 130, "pauses": 33, "postgres_restarts": 17, "connection_faults": 110}
    assert all(families[name] >= least for name, least in wanted.items()), families


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_victim_is_left_alone_until_it_is_back(seed: int) -> None:
    free_at: dict[str, float] = {}
    for fault in plan(seed, FULL):
        assert fault.at >= free_at.get(fault.victim, 0.0), fault
        assert FULL.calm <= fault.at <= FULL.seconds - FULL.calm
        free_at[fault.victim] = fault.at + fault.seconds


def test_rates_choose_the_kinds() -> None:
    chosen = plan(1, msgspec.structs.replace(FULL, rates={"pause": 3.0, "kill": 0.0}))
    assert {fault.kind for fault in chosen} == {"pause"}


def test_redis_is_struck_where_workers_are_behind_it() -> None:
    behind = setup.Setup(seconds=120.0, workers=3, apis=2, nodes=1, pipe="redis")
    struck = {fault.kind for fault in behind.planned() if fault.victim == "redis"}
    assert struck == set(REDIS_RATES)
    assert not [f for f in setup.Setup(seconds=120.0).planned() if f.victim == "redis"]


def test_every_crash_point_exists() -> None:
    assert set(NODE_POINTS) <= set(points.NODE_POINTS)
    assert set(API_POINTS) <= set(points.API_POINTS)


def _fault(kind: str, at: float, healed_at: float, *, took_effect: bool = True) -> Fault:
    return Fault(kind=kind, victim="node-1", at=at, healed_at=healed_at, took_effect=took_effect)


def _history(*faults: Fault) -> History:
    asked = Submitted(
        n=1,
        mode="at_least_once",
        way="webhook",
        asked_at=100.0,
        acked_at=100.1,
        task_id="a",
        due_at=101.0,
    )
    calls = [
        Call(n=1, run_id="a", attempt=1, fence=1, began_at=101.1),
        Call(n=1, run_id="a", attempt=2, fence=3, began_at=104.0, ended_at=104.1, succeeded=True),
    ]
    return History(
        began_at=100.0,
        ended_at=120.0,
        lease=2.0,
        submitted=[asked],
        calls=calls,
        faults=list(faults),
        finals=[Final(n=1, task_id="a", state=10, fence=3, attempt=2)],
    )


def test_a_campaign_whose_faults_took_no_effect_is_invalid() -> None:
    asked = setup.Setup(
        rate=1.0, seconds=1.0, faults=[Planned(kind="kill", victim="node-1", at=1.0)]
    )
    kill = _fault("kill", 101.2, 103.0)
    assert setup.judged(asked, _history(kill)).verdict == "good"
    idle = _fault("kill", 90.0, 91.0, took_effect=False)
    other = _fault("pause", 101.2, 103.0)
    assert setup.judged(asked, _history(idle, other)).verdict == "invalid"
    assert setup.judged(asked, _history()).verdict == "wrong"
    unexcused = msgspec.structs.replace(asked, no_excuse=("kill",))
    assert setup.judged(unexcused, _history(kill)).verdict == "wrong"


def test_what_was_kept_can_be_judged_again(tmp_path: Path) -> None:
    asked, history = setup.Setup(seed=3), _history(_fault("kill", 101.2, 103.0))
    setup.keep(tmp_path, asked, history)
    assert setup.kept(tmp_path) == (asked, history)


def test_figures() -> None:
    kill = _fault("kill", 101.2, 103.0)
    started = [Started(1, 99.0, 99.1), Started(2, 102.0, 104.5), Started(3, 106.0, 106.1)]
    spread = figures.by_circumstance(started, [kill], 2.0)
    assert (spread["calm"].tasks, spread["kill"].tasks) == (2, 1)
    assert spread["kill"].most == pytest.approx(2.5)
    assert figures.felt(started, [kill], 2.0)["kill"].most == pytest.approx(3.3)


def test_pictures_are_well_formed() -> None:
    delays = [plot.Delay(due / 10, 0.01 * (due % 7)) for due in range(300)]
    faults = [_fault("kill", 110.0, 112.0), _fault("a < b", 115.0, 116.0)]
    for draw in (plot.over_time, plot.around_faults):
        root = ET.fromstring(draw("delay & faults", delays, faults, 100.0))
        assert root.tag.endswith("svg")
        assert root.findall(".//{*}polyline")


def _line(product: str, verdict: str, **faults: int) -> ledger.Line:
    return ledger.Line(
        at="2026-01-01T00:00:00+00:00",
        commit="c",
        product=product,
        seed=1,
        seconds=1.0,
        verdict=verdict,
        acknowledged=60_000,
        faults=faults,
        counts={"lost": 0},
    )


def test_the_ledger_adds_up_the_newest_product(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    lines = [
        _line("old", "good", kill=1000),
        _line("new", "good", kill=150, crash_point=40, pause=30, postgres_fast=20, cut=150),
        _line("new", "invalid", kill=500),
        _line("new", "good", kill=20, pause=30, postgres_immediate=15, delay=60),
    ]
    for line in lines:
        ledger.append(line, file)
    assert ledger.read(file) == lines
    sums = ledger.totals(line for line in lines if line.product == "new")
    assert sums == {
        "kills": 210,
        "pauses": 60,
        "postgres_restarts": 35,
        "connection_faults": 210,
        "acknowledged": 120_000,
    }
    assert ledger.missing(sums) == {}
    assert "nothing is missing" in ledger.readable(lines, "new")
    assert "missing: " in ledger.readable(lines[:2], "new")


def test_a_product_that_was_touched_meanwhile_is_another_one() -> None:
    before = ledger.Product("c", "tree", False, 1.0)
    assert ledger.same(before, ledger.Product("d", "tree", False, 1.0))
    for after in (
        ledger.Product("c", "other", False, 1.0),
        ledger.Product("c", "tree", True, 1.0),
        ledger.Product("c", "tree", False, 2.0),
    ):
        assert not ledger.same(before, after)
    assert ledger.same(ledger.product(), ledger.product()) is not ledger.product().dirty


PLANT_ALL = """
import os, sys, traceback
import gnomon.wiring.api, gnomon.wiring  # so that no child has to load them
from proof.campaigns import boot, patches
bad = []
for name in patches.PATCHES:
    child = os.fork()
    if child == 0:
        try:
            patches.apply(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        bad.append(name)
sys.exit(", ".join(bad) or 0)
"""


def test_every_bug_can_be_planted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLANT_ALL],
        capture_output=True,
        text=True,
        check=False,
        cwd=ledger.ROOT,
        env={**os.environ, "PYTHONPATH": str(ledger.ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert len(zoo.ZOO) >= 12


PLANT_NO_FENCE = """
from gnomon.store.postgres import queries
from proof.campaigns import patches
patches.apply("settle-without-fence")
print(queries.query("settle"))
"""


def test_a_settlement_without_fence_looks_at_none() -> None:
    """The statement compares fence and node where it deletes a row, and where it keeps one."""
    done = subprocess.run(
        [sys.executable, "-c", PLANT_NO_FENCE],
        capture_output=True,
        text=True,
        check=True,
        cwd=ledger.ROOT,
        env={**os.environ, "PYTHONPATH": str(ledger.ROOT)},
    )
    assert "task.id = r.id" in done.stdout
    assert "fence = r.fence" not in done.stdout
    assert "node = r.node" not in done.stdout
