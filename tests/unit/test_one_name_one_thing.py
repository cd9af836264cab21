"""One word for one thing: no name of a class or of a statement is used twice."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gnomon"


def test_no_two_classes_have_the_same_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_no_two_statements_have_the_same_name() -> None:
    """They are asked for by name alone, whichever folder they are in."""
    found: dict[str, list[str]] = defaultdict(list)
    root = SOURCE / "store" / "postgres"
    for path in root.rglob("*.sql"):
        if root / "migrations" not in path.parents:
            found[path.stem].append(path.parent.name)
    assert {name: where for name, where in found.items() if len(where) > 1} == {}
