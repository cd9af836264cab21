"""Folders in memory that runs of tests have left, and those that are in use."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests import memory_folder

ELSEWHERE = "gnomon-4194305-x"  # of a process that has no such id here: it is in a container


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory_folder, "_MEMORY", tmp_path)
    monkeypatch.setattr(memory_folder, "_ROOM", 0)
    return tmp_path


def made() -> Path:
    folder = memory_folder.make()
    assert folder is not None
    return folder


def test_what_is_in_use_is_kept_whichever_process_has_it(memory: Path) -> None:
    used = made().rename(memory / ELSEWHERE)
    other = memory / "gnomon-4194305"  # of something else
    other.mkdir()
    mine = made()
    assert set(memory.iterdir()) == {used, other, mine}


def test_what_a_run_has_left_is_removed(memory: Path) -> None:
    make = "import sys; from pathlib import Path; from tests import memory_folder as m; "
    ended = f"{make}m._MEMORY, m._ROOM = Path(sys.argv[1]), 0; assert m.make()"
    subprocess.run([sys.executable, "-c", ended, str(memory)], check=True)
    (left,) = memory.iterdir()
    mine = made()
    assert left != mine
    assert list(memory.iterdir()) == [mine]
