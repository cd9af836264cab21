"""Documents changed in an editor, which may do anything to them."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from gnomon.cli.shared import editor
from gnomon.cli.shared.output import CommandFailed

BEFORE = {"payload": {"n": 1}, "name": "a\u2028# b", "tags": ["x"]}


@pytest.fixture
def edited_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Edits BEFORE with a program; returns the changes, None where there are none."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def edit(program: str) -> Any:
        script = tmp_path / "editor.py"
        script.write_text(
            "import os, pathlib, signal, sys\nfile = pathlib.Path(sys.argv[1])\n" + program
        )
        monkeypatch.setenv("VISUAL", shlex.join([sys.executable, str(script)]))
        return editor.edited("a task", BEFORE, lambda changes: changes, yes=True)

    return edit


@pytest.mark.parametrize("written", ["true", "1.0", '"1"', "[1]"])
def test_another_value_of_json_is_a_change(edited_by: Any, written: str) -> None:
    changes, _ = edited_by(f"""file.write_text(file.read_text().replace('": 1', '": {written}'))""")
    assert list(changes) == ["payload"]


def test_a_document_that_is_written_otherwise_is_the_same(edited_by: Any) -> None:
    program = """
import json
lines = file.read_text().split("\\n")
found = json.loads("\\n".join(each for each in lines if not each.startswith("#")))
file.write_text(json.dumps(dict(reversed(found.items()))))
"""
    assert edited_by(program) is None


def test_characters_that_separate_lines_stay_in_their_text(edited_by: Any) -> None:
    changes, _ = edited_by("file.write_text(file.read_text().replace('# b', '# c'))")
    assert changes == {"name": "a\u2028# c"}


def test_text_that_is_not_utf_8_is_kept(edited_by: Any, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="not UTF-8") as caught:
        edited_by(r"file.write_bytes(b'{\xff')")
    [kept] = tmp_path.glob("gnomon-*.json")
    assert kept.read_bytes() == b"{\xff"
    assert str(kept) in str(caught.value)


def test_a_file_that_is_removed_changes_nothing(edited_by: Any) -> None:
    with pytest.raises(CommandFailed, match="nothing was changed: the editor has removed"):
        edited_by("file.unlink()")


def test_an_interrupt_is_the_editors(edited_by: Any) -> None:
    """The terminal sends SIGINT to both."""
    program = f"""
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.kill({os.getpid()}, signal.SIGINT)
file.write_text(file.read_text().replace('"x"', '"y"'))
"""
    changes, _ = edited_by(program)
    assert changes == {"tags": ["y"]}
    program = "file.write_text('[]' if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else '{}')"
    assert edited_by(program) is None
