"""The threat model names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "security.md"


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", PAGE.read_text()))
    assert len(named) > 30
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_every_defence_is_attacked_by_a_test() -> None:
    """Whoever is stopped by nothing, or by somebody else, has no test; and the page says so."""
    for row in rows():
        assert len(row) in (3, 4), row
        if len(row) == 3 or not row[3].strip(" |"):
            assert row[2].startswith(("Nothing:", "A proxy")), row
