"""What those who are called write down: when each call began, and when and how it ended.

A line is written at once and whole, so what a process saw before it was killed is kept. The line
at the end of a call repeats that at its beginning; whoever reads them takes the later one.
"""

import os
import time
from pathlib import Path

import msgspec

# Seconds between the clock of the harness and the monotonic one, which is the same in every process
# of a machine: where the clock of a process is wrong on purpose, what it writes is right.
_EPOCH = float(os.environ["GNOMON_PROOF_EPOCH"]) if "FAKETIME" in os.environ else None


def now() -> float:
    """Seconds since the epoch, by the clock of the harness."""
    return time.time() if _EPOCH is None else time.monotonic() + _EPOCH


class Book:
    """A file of lines that can be added to from every thread."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, record: msgspec.Struct) -> None:
        os.write(self._file, msgspec.json.encode(record) + b"\n")

    def close(self) -> None:
        os.close(self._file)
