"""Output of commands: tables for people, JSON for machines, errors as a line on stderr."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import msgspec
import typer

from gnomon.cli.shared.tables import (
    GAP,
    LEAST_TEXT,
    Column,
    Fit,
    Laid,
    cell_length,
    cut,
    laid_out,
    wrapped,
)

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
    "SUCCEEDED": "green",
    "ROLLING_BACK": "yellow",
    "ROLLED_BACK": "yellow",
    "paused": "yellow",
}


_json_only = ContextVar("json_only", default=False)


class CommandFailed(Exception):
    """An expected condition that ends a command with exit code 1: the message says it all."""


@contextmanager
def speaking_json(wanted: bool) -> Iterator[None]:
    """Within, remarks and errors on stderr are JSON as well, one document a line."""
    token = _json_only.set(wanted)
    try:
        yield
    finally:
        _json_only.reset(token)


def visible(text: str) -> str:
    """The text with control characters escaped, as in JSON: answers of the API hold names, errors
    and bodies that anybody may have made up to steer a terminal."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, with control characters escaped."""
    typer.echo(visible(text), err=err, nl=nl)


def note(text: str) -> None:
    """Print a remark on stderr, where no script reads it."""
    echo(compact({"note": text}) if _json_only.get() else text, err=True)


def trouble(text: str, **members: Any) -> None:
    """Print an error on stderr; as JSON with these members beside its message."""
    told = compact({"error": {"message": text, **members}})
    echo(told if _json_only.get() else _between_words(f"gnomon: {text}"), err=True)


def _between_words(text: str) -> str:
    """The text in the lines of a terminal, if stderr is one. Words stay whole, however long: they
    may be addresses or commands, which are copied."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(
            line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        for line in text.split("\n")
    )


def live(text: str, *, new: bool) -> None:
    """Tell on stderr what is going on. On a terminal a line that is not `new` takes the place of
    the last one; elsewhere it is left out."""
    if not sys.stderr.isatty():
        if new:
            note(text)
        return
    shown = cut(visible(text), shutil.get_terminal_size().columns - 1)
    typer.echo(f"\r\x1b[2K{shown}" if not new else f"\n{shown}", err=True, nl=False)


def live_end() -> None:
    """End the last line."""
    if sys.stderr.isatty():
        typer.echo(err=True)


def confirm(question: str) -> None:
    """Ask on stderr, and end the command unless the answer is yes. CommandFailed where nobody can
    answer, or the output is JSON: the command has to be given `--yes` there."""
    if _json_only.get():
        raise CommandFailed(f"nothing was changed: {question} With --json, --yes is the answer")
    echo(f"{question} [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline() if sys.stdin else ""  # None where stdin is closed
    if not answer:
        echo(err=True)
        raise CommandFailed("nothing was changed: there is no terminal to ask on; add --yes")
    if answer.strip().lower() not in ("y", "yes"):
        raise typer.Abort


def done(text: str, value: Any, *, as_json: bool) -> None:
    """Print what was done: a line, or a value as JSON."""
    if as_json:
        document(value)
    else:
        echo(text)


def document(value: Any) -> None:
    """Print a value as JSON."""
    echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


async def stream(member: str, items: AsyncIterable[Any]) -> None:
    """Print `{"member": [...]}` while the items come in: there may be millions. If they stop coming
    nothing has been printed, or the document is closed with a member `error`."""
    begun = False
    try:
        async for item in items:
            opening = "," if begun else f'{{"{member}": ['
            echo(f"{opening}\n{compact(item)}", nl=False)
            begun = True
    except BaseException as error:
        if begun and not isinstance(error, OSError):  # a pipe that was closed takes no more
            echo(f'\n], "error": {compact({"message": str(error) or "interrupted"})}}}')
        raise
    echo("\n]}" if begun else f'{{"{member}": []}}')


def line(text: str, style: str = "") -> None:
    """Print one line, in a colour where there is a terminal."""
    typer.echo(_coloured(visible(text), style))


def paragraph(text: str) -> None:
    """Print text, in as many lines as it needs."""
    for each in wrapped(visible(text), width()):
        typer.echo(each)


def marked(mark: str, text: str, style: str = "") -> None:
    """Print text with a mark before its first line, in a colour."""
    margin = cell_length(mark) + 1
    first, *rest = wrapped(visible(text), max(LEAST_TEXT, width() - margin))
    typer.echo(f"{_coloured(mark, style)} {first}")
    for more in rest:
        typer.echo(" " * margin + more)


def table(columns: Sequence[str | Column], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headings, as wide as the terminal. Of columns that are only named, the first
    has names."""
    shown = [[visible(cell) for cell in row] for row in rows]
    known = [_column(column, first=not n) for n, column in enumerate(columns)]
    # A reader of a pipe, and grep, want whole ids.
    laid = laid_out(known, shown, width(), shorten=on_terminal())
    _row([[column.title] for column in laid.columns], laid, "bold")
    for row in laid.rows:
        _row(row, laid)


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line, without empty values."""
    given = [(name, visible(value)) for name, value in pairs if value]
    margin = max((len(name) for name, _ in given), default=0) + GAP
    for name, value in given:
        first, *rest = wrapped(value, max(LEAST_TEXT, width() - margin))
        typer.echo(_coloured(name.ljust(margin), "dim") + _coloured(first, style_of(value)))
        for more in rest:
            typer.echo(" " * margin + more)


def on_terminal() -> bool:
    """Whether a person reads the output as it comes."""
    return sys.stdout.isatty()


def width() -> int:
    """The columns of the terminal. Where there is none, a reader (or grep) wants whole lines."""
    return shutil.get_terminal_size().columns if on_terminal() else PIPE_WIDTH


def style_of(text: str) -> str:
    """The colour of a status, whatever is told after it."""
    return STATUS_STYLES.get(text.partition(" ")[0].rstrip(",:"), "")


def _column(column: str | Column, *, first: bool) -> Column:
    if isinstance(column, Column):
        return column
    return Column(column, Fit.NAME if first else Fit.TEXT)


def _row(cells: Sequence[Sequence[str]], laid: Laid, style: str = "") -> None:
    styles = [style or style_of(cell[0]) for cell in cells]
    for number in range(max(map(len, cells), default=0)):
        parts = []
        for cell, size, each in zip(cells, laid.widths, styles, strict=True):
            text = cell[number] if number < len(cell) else ""
            parts.append(_coloured(text, each) + " " * (size - cell_length(text)))
        # What is copied or diffed is better without spaces at the end.
        typer.echo((" " * GAP).join(parts).rstrip())


def _coloured(text: str, style: str) -> str:
    if not text or not style or not on_terminal() or os.environ.get("NO_COLOR"):
        return text
    weight = {style: True} if style in ("bold", "dim") else {"fg": style}
    return typer.style(text, **weight)


def moment(text: str | None) -> str:
    """A timestamp of the API for people: UTC, to the millisecond where it has any."""
    if text is None:
        return ""
    whole, dot, fraction = text.removesuffix("Z").replace("T", " ").partition(".")
    return f"{whole}{dot}{fraction[:3]}Z"


def age(text: str | None, now: datetime) -> str:
    """How long ago a timestamp of the API was, on a terminal; elsewhere the timestamp."""
    if text is None or not on_terminal():
        return second(text)
    seconds = max(0, int((now - datetime.fromisoformat(text)).total_seconds()))
    return f"{coarse(seconds)} ago"


def coarse(seconds: float) -> str:
    """Seconds in the largest unit that they fill."""
    unit, length = next(((u, n) for u, n in _UNITS if seconds >= n), ("s", 1))
    return f"{int(seconds // length)}{unit}"


def second(text: str | None) -> str:
    """The same to the second, for tables."""
    return "" if text is None else f"{moment(text).removesuffix('Z').partition('.')[0]}Z"


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
