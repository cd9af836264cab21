"""The functions that measured nodes run, and their record of calls: 16 bytes a call, kept in memory
and written out now and then.

The handler of every contender of `bench/peers` does this and nothing else. Programs of peers run
without Gnomon, so this needs the standard library alone; `bench/peers/program.cjs` and
`bench/peers/river/main.go` write the same format: the number of the task and the seconds since the
epoch, both as a little-endian double.
"""

import asyncio
import os
import sys
from array import array
from functools import cache
from pathlib import Path
from time import time
from typing import Any

CALLS_VARIABLE = "BENCH_CALLS"  # names the file that `stamp` writes to
_FLUSH_SECONDS = 0.25
_FIELDS = 2
_IN_FLIGHT_SECONDS = 8


class CallRecorder:
    """Collects calls. Writing is left for later: it would delay the next call."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._calls = array("d")

    def note(self, number: int) -> None:
        calls = self._calls
        if not calls:
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
        calls.append(number)
        calls.append(time())

    def flush(self) -> None:
        if not self._calls:
            return
        written, self._calls = self._calls, array("d")
        if sys.byteorder == "big":
            written.byteswap()
        with self._file.open("ab") as file:
            file.write(written.tobytes())


def read_calls(file: Path) -> dict[int, list[float]]:
    """When each number was called, in the order of the calls. Whole records only."""
    numbers_and_moments = array("d")
    content = file.read_bytes() if file.exists() else b""
    size = numbers_and_moments.itemsize * _FIELDS
    numbers_and_moments.frombytes(content[: len(content) // size * size])
    if sys.byteorder == "big":
        numbers_and_moments.byteswap()
    found: dict[int, list[float]] = {}
    pairs = zip(numbers_and_moments[::_FIELDS], numbers_and_moments[1::_FIELDS], strict=True)
    for number, moment in pairs:
        found.setdefault(int(number), []).append(moment)
    return found


def count_calls(file: Path) -> int:
    """How many calls are written, without reading them."""
    size = array("d").itemsize * _FIELDS
    return file.stat().st_size // size if file.exists() else 0


async def noop(payload: Any) -> None:
    """Nothing, so that all that is measured is Gnomon."""


async def stamp(payload: Any) -> None:
    """Note when this call began."""
    _recorder().note(payload["n"])


async def wait(payload: Any) -> None:
    """Be in flight for a while."""
    del payload
    await asyncio.sleep(_IN_FLIGHT_SECONDS)


@cache
def _recorder() -> CallRecorder:
    return CallRecorder(Path(os.environ[CALLS_VARIABLE]))
