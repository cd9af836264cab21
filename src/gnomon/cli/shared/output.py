"""Output of commands: tables for people, JSON for machines, errors as a line on stderr."""

import re
import sys
from collections.abc import AsyncIterable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Characters that steer a terminal, or turn the order of characters around: C0 but for tab and line
# feed, DEL, C1, and the controls of bidirectional text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Where no terminal says how wide it is, a reader (or grep) wants whole lines.
PIPE_WIDTH = 240
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))

STATUS_STYLES = {
    "COMPLETED": "green",
    "RUNNING": "cyan",
    "READY": "cyan",
    "FAILED": "yellow",
    "DEAD_LETTERED": "red",
    "succeeded": "green",
    "running": "cyan",
    "SKIPPED": "yellow",
    "MISSED": "yellow",
    "active": "green",
    "paused": "yellow",
}


class CommandFailed(Exception):
    """An expected condition that ends a command with exit code 1: the message says it all."""


@cache
def console() -> "Console":
    """Rich on stdout. It leaves colours out where there is no terminal, or NO_COLOR is set."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False, soft_wrap=False)


def visible(text: str) -> str:
    """The text with control characters escaped, as in JSON: answers of the API hold names, errors
    and bodies that anybody may have made up to steer a terminal."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, with control characters escaped."""
    typer.echo(visible(text), err=err, nl=nl)


def note(text: str) -> None:
    """Print a remark on stderr, where no script reads it."""
    echo(text, err=True)


def trouble(text: str) -> None:
    echo(f"gnomon: {text}", err=True)


def confirm(question: str) -> None:
    """Ask on stderr, and end the command unless the answer is yes. CommandFailed where nobody can
    answer: the command has to be given `--yes` there."""
    echo(f"{question} [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline() if sys.stdin else ""  # None where stdin is closed
    if not answer:
        echo(err=True)
        raise CommandFailed("nothing was changed: there is no terminal to ask on; add --yes")
    if answer.strip().lower() not in ("y", "yes"):
        raise typer.Abort


def document(value: Any) -> None:
    """Print a value as JSON."""
    echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


async def stream(member: str, items: AsyncIterable[Any]) -> None:
    """Print `{"member": [...]}` while the items come in: there may be millions."""
    separator = ""
    echo(f'{{"{member}": [', nl=False)
    async for item in items:
        echo(f"{separator}\n{msgspec.json.encode(item).decode()}", nl=False)
        separator = ","
    echo("\n]}")


def line(text: str, style: str = "") -> None:
    """Print one line, in a colour where there is a terminal."""
    from rich.text import Text

    with console().capture() as captured:
        console().print(Text(visible(text), style=style), soft_wrap=True)
    typer.echo(captured.get(), nl=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Print rows under headings; the first column is never cut."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
    for position, column in enumerate(columns):
        grid.add_column(column, no_wrap=position == 0, overflow="fold", header_style="bold")
    for row in rows:
        grid.add_row(*(Text(visible(cell), style=STATUS_STYLES.get(cell, "")) for cell in row))
    _print(grid)


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line, without empty values."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            grid.add_row(name, Text(visible(value), style=STATUS_STYLES.get(value, "")))
    _print(grid)


def _print(grid: "Table") -> None:
    # Rich fills each line up to the width of the table; what is copied or diffed is better bare.
    with console().capture() as captured:
        console().print(grid)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def moment(text: str | None) -> str:
    """A timestamp of the API for people: UTC, to the millisecond where it has any."""
    if text is None:
        return ""
    whole, dot, fraction = text.removesuffix("Z").replace("T", " ").partition(".")
    return f"{whole}{dot}{fraction[:3]}Z"


def span(seconds: float | None) -> str:
    """Seconds the way they are typed: 5400 is 1h30m."""
    if seconds is None:
        return ""
    whole, parts = int(seconds), []
    for unit, length in _UNITS:
        count, whole = divmod(whole, length)
        if count:
            parts.append(f"{count}{unit}")
    fraction = seconds - int(seconds)
    return "".join(parts) if parts and not fraction else f"{seconds:g}s"


def compact(value: Any) -> str:
    """A value as one line of JSON; nothing for null."""
    return "" if value is None else msgspec.json.encode(value).decode()


def shortened(text: str, most: int) -> str:
    """One line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
