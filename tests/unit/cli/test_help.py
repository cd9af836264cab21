"""Help fits a terminal of 80 columns, and says something about every option."""

from collections.abc import Iterator
from typing import Any

import typer.main

from gnomon.cli.main import app

WIDTH = 80


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


COMMANDS = dict(_commands(typer.main.get_command(app), "gnomon"))


def test_every_line_fits() -> None:
    long = {
        line
        for path, command in COMMANDS.items()
        for line in _help(path, command).splitlines()
        if len(line) > WIDTH
    }
    assert long == set()


def test_every_option_and_command_has_a_text() -> None:
    silent = {
        f"{path} {option.name}"
        for path, command in COMMANDS.items()
        for option in command.params
        if option.param_type_name == "option" and not option.help
    }
    assert silent == set()
    assert {path for path, command in COMMANDS.items() if not command.help} == set()


def _help(path: str, command: Any) -> str:
    context = command.make_context(
        path, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )
    return str(command.get_help(context))
