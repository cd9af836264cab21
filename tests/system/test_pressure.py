"""Steady load for a few seconds beside what others do to the server: everything runs, nothing is
lost, and nothing stands still. `make pressure` measures what is promised of rates and delays."""

import sys
from pathlib import Path

import pytest
from proof.pressure.__main__ import main
from proof.pressure.disturbances import KINDS
from proof.pressure.runs import Result, Size, Window, faults, run

pytestmark = pytest.mark.system

SHORT = Size(seconds=3.0, rate=200.0, window=1.0)
LONGEST_DELAY = 30.0  # the machine may have other things to do


@pytest.mark.parametrize("name", [name for name in KINDS if name != "calm"])
async def test_load_goes_on(database_dsn: str, tmp_path: Path, name: str) -> None:
    result = await run(name, database_dsn, tmp_path, SHORT)
    assert result.lost == 0
    assert result.acknowledged > 0
    assert result.latest < LONGEST_DELAY
    assert (result.back is None) == KINDS[name].steady


def _result(name: str, *rates: float, lost: int = 0, back: float | None = None) -> Result:
    windows = [Window(rate, 0.01, 0.05) for rate in rates]
    return Result(name, windows, 0.1, lost, 1000, back, "done")


def test_what_is_slower_than_calm_or_late_or_lost_is_found() -> None:
    calm = _result("calm", 100, 101, 99)
    assert faults(calm, None) == []
    assert faults(_result("reader", 99, 95, 91), calm) == []
    assert len(faults(_result("reader", 99, 80, 70), calm)) == 2
    assert faults(_result("slots", 99, 10, 150, back=4.0), calm) == []
    assert len(faults(_result("slots", 99, 10, 150, back=6.0), calm)) == 1
    assert len(faults(_result("fresh", 99, 99, lost=1), calm)) == 1
    assert all(len(line) <= 80 for line in _result("slots", 1, back=1.0).readable().splitlines())


def test_a_run_without_a_whole_window_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pressure", "calm", "--seconds", "8", "--window", "10"])
    with pytest.raises(SystemExit):
        main()
    assert "--seconds must hold one --window" in capsys.readouterr().err
