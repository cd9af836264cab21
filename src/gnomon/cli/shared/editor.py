"""Changes a JSON document in the user's editor, as often as it takes until it is accepted."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import typer

from gnomon.cli.shared import output
from gnomon.cli.shared.output import CommandFailed, compact
from gnomon.client.errors import ApiProblem
from gnomon.model.targets.target_secrets import MASK

Json = dict[str, Any]

_COMMENT = "#"


def edited(
    title: str, before: Json, change: Callable[[Json], Json], *, yes: bool
) -> tuple[Json, Json] | None:
    """Let the user edit `before`, show the difference, and `change` what is different. What is
    refused is shown above the same text again. Returns the change and what `change` gave; None
    where nothing was changed. The text is kept where the user gives up."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="gnomon-", delete=False) as made:
        file = Path(made.name)
    text, refused = _text(before), ""
    while True:
        file.write_text(_heading(title, refused) + text, encoding="utf-8")
        _open(file)
        text = _without_comments(_read(file))
        try:
            changes = differences(before, _parsed(text))
            if not changes:
                file.unlink()
                return None
            for name, value in changes.items():
                output.note(
                    f"{name}: {compact(before[name]) or 'null'} -> {compact(value) or 'null'}"
                )
            if not yes:
                output.confirm(f"Change {title}?")
            done = change(changes)
        except (ApiProblem, _Refused) as error:
            refused = str(error)
            output.trouble(refused)
            _ask_again(file)
        except BaseException:
            output.note(f"the text is kept in {file}")
            raise
        else:
            file.unlink()
            return changes, done


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The members that differ, with their new values. Raises ValueError for one that is not among
    those before, and for a secret that is still masked."""
    unknown = sorted(after.keys() - before.keys())
    if unknown:
        raise _Refused(f"{unknown[0]!r} cannot be changed; what can is {', '.join(before)}")
    # As JSON: for Python 1, 1.0 and true are the same.
    changed = {name: value for name, value in after.items() if _json(value) != _json(before[name])}
    for name, value in changed.items():
        if MASK in _strings(value):
            raise _Refused(f"{name} holds {MASK} in the place of a secret: write the secret there")
    return changed


class _Refused(ValueError):
    """The text is no document that can be sent."""


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _text(document: Json) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _heading(title: str, refused: str) -> str:
    lines = [f"{title}. Save and close to change it; a member that you remove stays as it is."]
    lines += [f"REFUSED: {line}" for line in refused.splitlines()]
    return "".join(f"{_COMMENT} {line}\n" for line in lines)


def _without_comments(text: str) -> str:
    # Only at line feeds: JSON text may contain other characters that separate lines.
    lines = text.split("\n")
    return "\n".join(line for line in lines if not line.lstrip().startswith(_COMMENT))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CommandFailed(f"nothing was changed: the editor has removed {file}") from None
    except UnicodeDecodeError as error:
        raise CommandFailed(
            f"nothing was changed: the text is not UTF-8 ({error.reason} at byte {error.start}); "
            f"it is kept in {file}"
        ) from error


def _parsed(text: str) -> Json:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _Refused(f"the text is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _Refused("the text must be a JSON object")
    return found


def _open(file: Path) -> None:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        with _interrupts_left_to_it():
            done = subprocess.run([*shlex.split(command), str(file)], check=False)  # noqa: S603
    except (OSError, ValueError) as error:
        raise CommandFailed(
            f"$EDITOR ({command}) cannot be started: {error}; the text is in {file}"
        ) from error
    if done.returncode:
        raise CommandFailed(
            f"the editor ended with {done.returncode}: nothing was changed; the text is in {file}"
        )


@contextmanager
def _interrupts_left_to_it() -> Iterator[None]:
    """Within, Ctrl-C is the editor's: the terminal sends it to this process as well, which would
    kill the editor and what was written in it. (A handler, because a child inherits SIG_IGN.)"""
    before = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ask_again(file: Path) -> None:
    try:
        output.confirm("Edit it again?")
    except (CommandFailed, typer.Abort):
        raise CommandFailed(f"nothing was changed; the text is kept in {file}") from None
