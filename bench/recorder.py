"""Which task was called when: 16 bytes a call, kept in memory and written out now and then.

The handler of every contender does this and nothing else. Programs of peers run without Gnomon,
so this needs the standard library alone; `peers/program.cjs` and `peers/river/main.go` write the
same format: the number of the task and the seconds since the epoch, both as a little-endian double.
"""

import asyncio
import sys
from array import array
from pathlib import Path
from time import time

_FLUSH_SECONDS = 0.25
_FIELDS = 2


class Recorder:
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
