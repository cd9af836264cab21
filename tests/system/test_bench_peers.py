"""Gnomon and one peer go through the whole comparison, and every task runs once. Whether the
figures are good is not asked here: tests share their machine."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from bench.peers.command import Document
from bench.peers.installing import is_installed

ROOT = Path(__file__).parents[2]
SECONDS = 900  # a twelfth of that on a quiet machine
TASKS = 200
MEASURED = {
    *("drain_200_rate", "drain_200_steady", "drain_200_first", "sustained_rate"),
    *("enqueue_single", "enqueue_bulk"),
    *("idle_call_p50", "idle_call_p99", "idle_answer_p50", "idle_answer_p99"),
    *("herd_200_p50", "herd_200_p99", "herd_200_early"),
    *("cpu_worker", "cpu_server", "cpu_all", "wal", "dead"),
}


@pytest.mark.system
@pytest.mark.timeout(SECONDS + 40)
@pytest.mark.skipif(
    not is_installed("pgqueuer"),
    reason="PgQueuer is not installed: python -m bench.peers.installing pgqueuer",
)
def test_gnomon_and_a_peer_take_every_measure(tmp_path: Path) -> None:
    file, pictures = tmp_path / "peers.json", tmp_path / "pictures"
    output = _bench(
        *("peers", "--no-install", "--only", "pgqueuer", "--quick", "--tasks", str(TASKS)),
        *("--json", str(file), "--plots", str(pictures)),
    )
    found = msgspec.json.decode(file.read_bytes(), type=Document).match
    assert found.failures == []
    assert found.absent == {}
    assert {line.quantity.name for line in found.lines} == MEASURED
    for line in found.lines:
        assert all(line.summary(who) is not None for who in ("gnomon", "pgqueuer")), line
    early = found.line("herd_200_early")
    assert early is not None
    assert early.values["gnomon"] == [0.0]
    assert "PgQueuer 1.6.0: consumers 2" in output
    assert {each.name for each in pictures.iterdir()} == {
        *("peers-rates.svg", "peers-delays.svg", "peers-costs.svg")
    }


@pytest.mark.system
@pytest.mark.timeout(SECONDS + 40)
def test_who_cannot_be_installed_is_named_and_gnomon_is_measured_all_the_same(
    tmp_path: Path,
) -> None:
    file, go = tmp_path / "peers.json", tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'the module cannot be fetched' >&2\nexit 1\n")
    go.chmod(0o700)
    output = _bench(
        *("peers", "--only", "river", "--quick", "--tasks", str(TASKS)),
        *("--measure", "drain", "--json", str(file)),
        PATH=os.pathsep.join([str(tmp_path), os.environ["PATH"]]),
        BENCH_BUILT=str(tmp_path / "built"),
    )
    found = msgspec.json.decode(file.read_bytes(), type=Document).match
    assert found.absent == {
        "river": "it cannot be installed: go failed: the module cannot be fetched"
    }
    assert "not measured: river: it cannot be installed: go failed" in output
    assert [entrant.name for entrant in found.entrants] == ["gnomon"]
    assert {line.quantity.name for line in found.lines} >= {"drain_200_rate", "cpu_all", "wal"}


def _bench(*arguments: str, **environ: str) -> str:
    """Runs it to its end. One that hangs is asked to stop first, so that it leaves nothing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("GNOMON_")} | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, errors = process.communicate(timeout=30)
        pytest.fail(f"the bench did not end: {errors[-2000:]}")
    assert process.returncode == 0, output[-2000:] + errors[-2000:]
    return output
