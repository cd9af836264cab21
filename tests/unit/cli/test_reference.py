"""The pages say what the code does: every setting, every command, every option, every example."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer.main

from gnomon.cli.main import app
from gnomon.settings import SECTIONS

DOCS = Path(__file__).parents[3] / "docs"
REFERENCE = DOCS / "reference"
_COMMAND = re.compile(r"(?:\| |### )`(gnomon(?: [a-z]+(?:-[a-z]+)*)+)")
_SECTION = re.compile(r"(?ms)^## `(\w+)`\n(.*?)(?=^## |\Z)")
_ROW = re.compile(r"\| `(\w+)` \| (none|`[^`]*`) \| .+ \|")


@cache  # making it takes a tenth of a second
def _root() -> Any:
    return typer.main.get_command(app)


def test_every_setting_is_on_its_page() -> None:
    page = (REFERENCE / "settings.md").read_text()
    told = {section: _ROW.findall(text) for section, text in _SECTION.findall(page)}
    assert told == {
        section: [(field.name, _default(field)) for field in msgspec.structs.fields(kind)]
        for section, kind in SECTIONS.items()
    }


def test_every_command_and_option_is_on_its_page() -> None:
    """Each command has a row or a heading; options of many commands are told once, above."""
    intro, *rest = re.split(
        r"(?m)^(?=(?:\| |### )`gnomon |##+ )", (REFERENCE / "cli.md").read_text()
    )
    told = {found[1]: _options(part) for part in rest if (found := _COMMAND.match(part))}
    commands = dict(_commands(_root(), "gnomon"))
    of_many = _options(intro)
    assert commands.pop("gnomon") <= of_many
    assert told.keys() == commands.keys()
    for path, options in commands.items():
        assert options - of_many <= told[path] <= options, path


@pytest.mark.parametrize(
    "page",
    [*sorted(DOCS.glob("how-to/*.md")), DOCS / "tutorial.md", DOCS.parent / "README.md"],
    ids=lambda page: page.stem,
)
def test_every_example_can_be_typed(page: Path) -> None:
    for line in _examples(page.read_text()):
        command = _root()
        words = shlex.split(line, comments=True)[1:]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        command.make_context(line, words)


def _examples(page: str) -> Iterator[str]:
    """The commands in shell blocks, without what the shell makes of them."""
    for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", page):
        for line in block.replace("\\\n", "").splitlines():
            command = re.sub(r'"\$\(date[^)]*\)"', "2030-01-31", line.strip())
            if found := re.match(r"(?:\w+=\$\()?(gnomon .*?)(?:\)$| && .*|$)", command):
                yield found[1]


def _default(field: msgspec.structs.FieldInfo) -> str:
    default: Any = field.default
    if default is msgspec.NODEFAULT:
        default = field.default_factory()
    if isinstance(default, dict) and default:
        default = ", ".join(f"{name}={value}" for name, value in default.items())
    if isinstance(default, tuple):
        default = ", ".join(default)
    return "none" if default in (None, "") else f"`{default}`"


def _options(text: str) -> set[str]:
    return set(re.findall(r"`(--[\w-]+)", text))


def _commands(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
    """Paths that can be typed and their long options, less those that all of them have."""
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    names = (name for each in shown for name in (*each.opts, *each.secondary_opts))
    options = {name for name in names if name[:2] == "--"} - {"--help", "--show-completion"}
    if options or getattr(command, "invoke_without_command", True):
        yield path, options
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")
