"""What those who are called write down: when each call began, and when and how it ended.

A line is written at once and whole, so what a process saw before it was killed is kept. The line
at the end of a call repeats that at its beginning.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from tests.system.proof.history import Call, Effect, read

# Seconds between the clock of the harness and the monotonic one, which is the same in every process
# of a machine: where the clock of a process is wrong on purpose, what it writes is right.
CLOCK = "GNOMON_PROOF_CLOCK"
_OFFSET = float(os.environ.get(CLOCK) or time.time() - time.monotonic())


def clock_setting() -> str:
    """The value of `GNOMON_PROOF_CLOCK` for the processes of this harness."""
    return repr(time.time() - time.monotonic())


def now() -> float:
    """Seconds since the epoch, by the clock of the harness."""
    return time.monotonic() + _OFFSET


class Book:
    """A file of lines that can be added to from every thread."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, record: msgspec.Struct) -> None:
        os.write(self._file, msgspec.json.encode(record) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def calls_in(folder: Path) -> list[Call]:
    """Every call that was seen by anybody who wrote to this folder."""
    files = sorted(folder.glob("calls-*.jsonl"))
    return merged(call for file in files for call in read(file, Call))


def effects_in(folder: Path) -> list[Effect]:
    """Every effect that the sink of the observer has applied."""
    files = sorted(folder.glob("effects-*.jsonl"))
    return [effect for file in files for effect in read(file, Effect)]


def merged(lines: Iterable[Call]) -> list[Call]:
    """One record for each call, with its end where that was seen, in the order of beginnings."""
    calls: dict[tuple[int, str, int, float], Call] = {}
    for line in lines:
        key = (line.n, line.run_id, line.fence, line.began_at)
        if key not in calls or line.ended_at is not None:
            calls[key] = line
    return sorted(calls.values(), key=lambda call: call.began_at)
