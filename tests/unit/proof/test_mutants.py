"""The tool behind `make mutants`, on a project of one function."""

import json
import os
import subprocess
import sys
from pathlib import Path

from proof.mutants.changes import changes_of
from proof.mutants.plan import Choice, Project, chosen
from proof.mutants.planted import planted

ROOT = Path(__file__).parents[3]
CODE = '''\
"""A small project."""


def bounded(value: int, most: int) -> int:
    """Not more than `most`."""
    if value > most:
        return most
    return value
'''
TEST = """\
from gnomon.bounds import bounded


def test_bounded():
    assert [bounded(n, 3) for n in (2, 3, 4)] == [2, 3, 3]
"""
SQL = """\
-- Not this: AND a = 1
UPDATE t SET a = 1, b = b + 1
WHERE t.x <= 5 AND t.y = 'AND z = 1'
  AND t.z IS NULL
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run(project: Path, report: Path, **tests: str) -> "subprocess.CompletedProcess[str]":
    """Measure a project of one function by these tests."""
    for name, text in (
        ("src/gnomon/__init__.py", ""),
        ("src/gnomon/bounds.py", CODE),
        *((f"tests/unit/test_{name}.py", text) for name, text in tests.items()),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n"),
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "proof.mutants", "--only", "bounds.py", "--json", str(report)],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


FATES = {
    "value > most -> value >= most": "survived",  # at the bound, both are the same
    "value > most -> value <= most": "killed",
    "value > most -> False": "killed",
    "most -> None": "killed",
    "value -> None": "killed",
}


def fates(report: Path) -> dict[str, str]:
    found = json.loads(report.read_text())
    return {mutant["change"]: mutant["fate"] for mutant in found["mutants"]}


def test_what_tests_notice_is_killed_and_what_changes_nothing_survives(tmp_path: Path) -> None:
    project, report = tmp_path / "project", tmp_path / "report.json"
    done = run(project, report, bounds=TEST)
    assert done.returncode == 0, done.stderr + done.stdout
    assert fates(report) == FATES
    assert "  bounds.py:6  value > most -> value >= most" in done.stdout.splitlines()
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    texts = {name: text.decode() for name, text in contents(project).items()}
    assert (texts["src/gnomon/bounds.py"], len(texts)) == (CODE, 4), "only copies are changed"


def test_a_test_that_fails_on_the_code_as_it_is_is_left_out(tmp_path: Path) -> None:
    project, report = tmp_path / "project", tmp_path / "report.json"
    failing = TEST.replace("[2, 3, 3]", "[2, 3, 4]")
    done = run(project, report, bounds=TEST, wrong=failing)
    assert done.returncode == 0, done.stderr + done.stdout
    assert fates(report) == FATES
    assert "  tests/unit/test_wrong.py" in done.stdout.splitlines()


def test_sql_is_changed_where_it_says_something() -> None:
    shown = [change.shown for change in changes_of(SQL, ".sql")]
    assert "removed: AND t.z IS NULL" in shown
    assert any(each.startswith("<= -> <") for each in shown)
    assert any(each.startswith("IS NULL -> IS NOT NULL") for each in shown)
    assert not any("Not this" in each for each in shown)
    changed = [change.applied(SQL) for change in changes_of(SQL, ".sql")]
    assert len(set(changed)) == len(changed)
    assert all("SET a = " in text and "'AND z = 1'" in text for text in changed)


def test_every_bug_that_was_planted_by_hand_still_can_be() -> None:
    mutants = planted(Project(ROOT), [])
    assert len(mutants) == 26
    assert all((ROOT / test).exists() for mutant in mutants for test in mutant.tests)


def test_the_same_seed_chooses_the_same_and_every_mutant_has_tests() -> None:
    project = Project(ROOT)
    mutants = chosen(project, ["fairness/"], 50, seed=3)
    assert mutants == chosen(project, ["fairness/"], 50, seed=3)
    assert mutants != chosen(project, ["fairness/"], 50, seed=4)
    assert all(mutant.tests for mutant in mutants)
    assert "tests/integration/test_planning.py" in Choice(project).of(
        "store/postgres/cron/withdraw_runs.sql"
    )
