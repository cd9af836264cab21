"""The bench measures everything it promises, loses no task and sees none start early. Whether the
figures are good is not asked here: tests share their machine."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from bench.pages import API, DEEP, FILTERED, READS
from tests.dashboard.page_routes import PAGES

ROOT = Path(__file__).parents[2]
SECONDS = 400  # a tenth of that on a quiet machine
# The others are measures of `gnomon bench`, too: see test_bench_command.py.
PARTS = ("drain", "open", "webhooks", "flight", "tenants", "limits", "peer")
MEASURES = {
    *("drain_rate", "drain_rate_with_start", "drain_rate_steady"),
    *("open_single_500_p99", "open_single_1000_p99", "open_single_held"),
    *("open_batch_5000_p99", "open_batch_held"),
    *("webhook_rate", "webhook_rate_steady", "flight_most", "flight_memory"),
    *("spread_rate", "spread_ratio", "limits_concurrency_ratio", "limits_rate_ratio"),
}
PEER = "peer_drain_rate"  # measured where it is installed; otherwise the line says so


class Measure(msgspec.Struct):
    name: str
    value: float | None
    note: str


class Tally(msgspec.Struct):
    measure: str
    submitted: int
    completed: int
    early: int
    repeated: int


class Findings(msgspec.Struct):
    machine: dict[str, object]
    measures: list[Measure]
    tasks: list[Tally]


@pytest.mark.system
@pytest.mark.timeout(SECONDS + 40)
def test_every_measure_is_made_and_every_task_accounted_for(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    parts = [word for part in PARTS for word in ("--only", part)]
    _bench("--quick", "--tasks", "300", "--seconds", "0.5", "--json", str(file), *parts)

    found = msgspec.json.decode(file.read_bytes(), type=Findings)
    values = {measure.name: measure.value for measure in found.measures}
    assert values.keys() >= MEASURES | {PEER}
    assert [name for name in MEASURES if values[name] is None] == []
    assert values[PEER] is not None or {m.note for m in found.measures if m.name == PEER} != {""}
    assert {"cores", "python", "postgresql"} <= found.machine.keys()
    for tally in found.tasks:
        assert tally.submitted > 0, tally
        assert (tally.completed, tally.early, tally.repeated) == (tally.submitted, 0, 0), tally


@pytest.mark.system
@pytest.mark.timeout(SECONDS + 40)
def test_the_time_of_every_page_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "pages.json"
    few = ("--finished", "2000", "--scheduled", "2000", "--types", "20", "--tenants", "5")
    _bench("dashboard", *few, "--times", "2", "--json", str(file))
    found = msgspec.json.decode(file.read_bytes(), type=Findings)
    measured = {measure.name for measure in found.measures if measure.value is not None}
    deep = (f"{path} deep" for path, _, _ in DEEP)
    for path in (*PAGES, *FILTERED, *(API + path for path in READS), *deep):
        assert {f"page {path}", f"page {path}, never analyzed"} <= measured


@pytest.mark.system
@pytest.mark.timeout(SECONDS + 40)
def test_what_open_dashboards_cost_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "watching.json"
    _bench(
        *("watching", "--tasks", "1000", "--dashboards", "10", "--pairs", "1"), "--json", str(file)
    )
    found = msgspec.json.decode(file.read_bytes(), type=Findings)
    measured = {measure.name for measure in found.measures if measure.value is not None}
    assert measured == {"watched_cpu", "alone_cpu", "watching_ratio", "refreshes"}
    assert [tally.completed for tally in found.tasks] == [1000, 1000]


@pytest.mark.system
@pytest.mark.timeout(SECONDS + 40)
def test_growth_is_measured_on_every_axis_and_drawn(tmp_path: Path) -> None:
    file, pictures = tmp_path / "growth.json", tmp_path / "pictures"
    # Of two sizes of an axis: tests/unit/bench/test_growth.py. Each size costs a dozen processes.
    sizes = ("--scheduled", "500", "--archived", "500", "--tenants", "20", "--nodes", "2")
    small = ("--tasks", "200", "--seconds", "0.5", "--rounds", "1")
    _bench("growth", *sizes, *small, "--json", str(file), "--plots", str(pictures))
    found = msgspec.json.decode(file.read_bytes(), type=Findings)
    measured = {measure.name for measure in found.measures if measure.value is not None}
    points = ("scheduled_500", "archived_500", "tenants_20", "nodes_2")
    for name in ("drain", "sustained", "herd"):
        assert {f"growth_{point}_{name}" for point in points} <= measured
    assert [tally.measure for tally in found.tasks] == list(points)
    assert {each.stem for each in pictures.iterdir()} == {
        *("growth-scheduled", "growth-archived", "growth-tenants", "growth-nodes")
    }


@pytest.mark.system
@pytest.mark.timeout(SECONDS + 40)
def test_a_steady_load_is_judged_by_its_windows(tmp_path: Path) -> None:
    file, pictures = tmp_path / "steady.json", tmp_path / "pictures"
    small = ("--seconds", "4", "--rate", "1000", "--window", "1", "--every", "1", "--held", "1")
    _bench("steady", *small, "--json", str(file), "--plots", str(pictures))
    found = msgspec.json.decode(file.read_bytes(), type=Findings)
    notes = {measure.name: measure.note for measure in found.measures}
    assert notes.keys() >= {"steady_rate", "steady_lowest", "steady_p99", "steady_backlog"}
    assert notes["steady_lowest"].startswith("4 windows of 1 s")
    assert "<polyline" in (pictures / "steady.svg").read_text()


def _bench(*arguments: str) -> None:
    """Runs it to its end. One that hangs is asked to stop first, so that it leaves nothing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("GNOMON_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate(timeout=30)
        pytest.fail(f"the bench did not end: {output[-2000:]}")
    assert process.returncode == 0, output[-4000:]
