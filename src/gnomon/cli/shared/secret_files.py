"""Secrets of the command line: read from files or stdin, and written to new files of one's own.

No option takes a secret itself: every user of the machine can read the arguments of a process.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import typer

from gnomon.cli.shared import values
from gnomon.cli.shared.output import CommandFailed

_LONGEST = 16 * 1024  # bytes; tokens are the longest, and are kept below this

Out = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="Write it to a new file (0600), not to stdout."),
]


def read(file: str, option: str) -> str:
    """The secret in a file, or on stdin (`-`), without the space around it."""
    try:
        text = values.read(file).decode().strip()
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{option}: {_named(file)} is not text") from None
    if not text:
        raise typer.BadParameter(f"{option}: {_named(file)} holds nothing")
    if len(text) > _LONGEST or not text.isprintable():
        raise typer.BadParameter(f"{option}: {_named(file)} holds more than one line of a secret")
    return text


def _named(file: str) -> str:
    return "stdin" if file == "-" else file


class NewSecretFile:
    """A new file that only this user can read. It is created before the secret, which would be lost
    if it could not be written, and removed if creating the secret fails. Does nothing without a
    path."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            try:
                self._descriptor = os.open(self._path, flags, 0o600)
            except OSError as error:
                raise CommandFailed(
                    f"--out: {self._path} cannot be created: {error.strerror}; nothing was changed"
                ) from error
        return self

    def write(self, secret: str) -> str | None:
        """Write the secret. Returns the path, or None where the secret is to be printed."""
        if self._descriptor is None:
            return None
        descriptor, self._descriptor = self._descriptor, None
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")
        return str(self._path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._path is not None and self._descriptor is not None:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)
