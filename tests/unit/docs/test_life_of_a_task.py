"""The walk through the code leads through code that is there, and in one direction."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "gnomon"
PAGE = (ROOT / "docs" / "life-of-a-task.md").read_text()
HOPS = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
_FILE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|\.sql|/))`")
_FUNCTION = re.compile(r"`([a-z_/]+\.py)` `([\w.]+)`")
# The rooms of a hop, as they follow one another; a hop may name what it hands over to.
_ORDER = (
    "api/", "usecases/", "store/postgres/tasks", "store/postgres/hints", "node/ahead",
    "node/dispatch", "pipe/", "node/run", "pipe/", "node/settle",
)  # fmt: skip


def names_in(file: str) -> set[str]:
    """The functions, classes and methods of a module."""
    found = set()
    for node in ast.parse((SOURCE / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (
                n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


def test_every_file_of_the_walk_is_there() -> None:
    files = _FILE.findall(PAGE)
    assert len(files) > 30
    assert [file for file in files if not (SOURCE / file).exists()] == []


def test_every_hop_names_a_function_that_is_there() -> None:
    assert len(HOPS) > 15
    for hop in HOPS:
        assert _FUNCTION.search(hop), hop
    named = _FUNCTION.findall(PAGE)
    assert [each for each in named if each[1] not in names_in(each[0])] == []


def test_no_hop_leads_back() -> None:
    reached = 0
    for hop in HOPS:
        file = _FUNCTION.findall(hop)[0][0]
        later = [n for n in range(reached, len(_ORDER)) if file.startswith(_ORDER[n])]
        assert later, f"{file} comes after {_ORDER[reached]}"
        reached = later[0]
    assert reached == len(_ORDER) - 1
