"""The reference pages say what the code does: every setting, every command, every option."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import typer.main

from gnomon.cli.main import app
from gnomon.settings import Settings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_ROW = re.compile(r"\| `(\w+)` \| `(\w+)` \| (none|`[^`]*`) \| (.+) \|")


def test_every_setting_is_on_its_page() -> None:
    page = (REFERENCE / "settings.md").read_text()
    told = {name: (variable, default) for name, variable, default, _ in _ROW.findall(page)}
    assert told == {
        field.name: (_variable(field.name), _default(field))
        for field in msgspec.structs.fields(Settings)
    }


def test_every_command_and_option_is_on_its_page() -> None:
    page = (REFERENCE / "cli.md").read_text()
    sections = dict(re.findall(r"(?ms)^## `(gnomon[^`]*)`\n(.*?)(?=^## |\Z)", page))
    commands = dict(_commands(typer.main.get_command(app), "gnomon"))
    assert sections.keys() == commands.keys()
    for path, options in commands.items():
        assert set(re.findall(r"`(--[\w-]+)", sections[path])) == options, path


def _variable(name: str) -> str:
    return "DATABASE_URL" if name == "database_url" else f"GNOMON_{name.upper()}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "`{}`"
    return "none" if field.default is None else f"`{field.default}`"


def _commands(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
    """Paths of the commands and their long options, less those that all of them have."""
    common = {"--help", "--install-completion", "--show-completion"}
    options = {option for each in command.params for option in each.opts if option[:2] == "--"}
    yield path, options - common
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")
