"""Nobody is handed more things than one can keep in mind."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gnomon"
MOST = 8
MOST_OF_A_PART_OF_A_NODE = 6  # constructors in node/ and wiring/: see CONTRIBUTING

_COMMANDS = SOURCE / "cli"
_CALLS = SOURCE / "client" / "calls"
_FILTERED = ("list_", "get_task_stats", "create_bulk_operation")


def constructors_and_functions(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Where each is, its name, and its parameters; those of a method without `self`."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if path.is_relative_to(_COMMANDS) and not node.name.startswith("_"):
                    continue  # the parameters of a command are its options, as Typer reads them
                if path.is_relative_to(_CALLS) and node.name.startswith(_FILTERED):
                    continue  # the parameters of a list are its filters in the API, those of an
                    # operation on many tasks what it does to them
                given = node.args
                named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                count = sum(argument.arg not in ("self", "cls") for argument in named)
                yield str(path.relative_to(SOURCE)), node.name, count


def test_no_function_takes_too_many_things() -> None:
    found = [each for each in constructors_and_functions(SOURCE) if each[2] > MOST]
    assert found == []


def test_no_part_of_a_node_is_made_of_too_many_things() -> None:
    found = [
        each
        for folder in ("node", "wiring", "pipe", "chores")
        for each in constructors_and_functions(SOURCE / folder)
        if each[1] == "__init__" and each[2] > MOST_OF_A_PART_OF_A_NODE
    ]
    assert found == []
