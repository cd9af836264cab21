"""Lets the processes of one command be scraped together."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_VARIABLE = "GNOMON_OUTPUT_METRICS_SOCKET"
_SUFFIX = ".sock"

_LONGEST_FOLDER = 48  # the address of a socket has some 100 characters in all

# The environment of a process of this name.
Together = Callable[[Mapping[str, str], str], dict[str, str]]


@contextmanager
def scraped_together(own: str = "") -> Iterator[Together]:
    """Gives each process a socket in one folder. `own` is that of the command itself, where it is
    one of several: its processes join the others, under its name."""
    # For this user alone.
    with tempfile.TemporaryDirectory(prefix="gnomon-", dir=_short_folder()) as made:

        def environ_of(environ: Mapping[str, str], name: str) -> dict[str, str]:
            socket = (
                Path(own).with_name(f"{Path(own).stem}-{name}{_SUFFIX}")
                if own
                else Path(made, f"{name}{_SUFFIX}")
            )
            return {**environ, _VARIABLE: str(socket)}

        yield environ_of


def _short_folder() -> str:
    usual = tempfile.gettempdir()
    return usual if len(usual.encode()) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - made safely
