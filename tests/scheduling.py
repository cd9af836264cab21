"""The order of a run in several processes: what takes long is spread and comes first.

The processes begin with an equal number of tests each, in the order of collection, and one that has
none left takes half of another's, from the end. Left alone, one process has all browsers and
another all tests without a server, and the long ones come last, when nobody is left to share with.
"""

import heapq
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeVar

# Seconds of a test, about, by its folder; the others take next to none and fill up the end.
_SECONDS = {"system": 8.0, "types": 15.0, "dashboard": 1.0, "integration": 0.7, "plans": 0.7}


class Located(Protocol):
    """A collected test, as far as it matters here."""

    @property
    def path(self) -> Path: ...


Test = TypeVar("Test", bound=Located)


def spread(tests: Iterable[Test], processes: int) -> list[Test]:
    """The same tests, so that `processes` equal parts of them take about as long. Tests of one file
    stay together: they share fixtures."""
    files = [list(group) for _, group in groupby(tests, key=lambda test: test.path)]
    long = [file for file in files if _seconds(file) > 0]
    short = [test for file in files if _seconds(file) == 0 for test in file]
    parts: list[list[Test]] = [[] for _ in range(processes)]
    loads = [(0.0, number) for number in range(processes)]
    for file in sorted(long, key=_seconds, reverse=True):
        load, number = heapq.heappop(loads)
        parts[number] += file
        heapq.heappush(loads, (load + _seconds(file), number))
    remaining = sum(map(len, parts)) + len(short)
    for place, part in enumerate(parts):
        size = remaining // (processes - place)
        fill = max(size - len(part), 0)
        part += short[:fill]
        del short[:fill]
        remaining -= len(part)
    return [test for part in parts for test in part] + short


def _seconds(file: Sequence[Located]) -> float:
    folder = file[0].path.parent
    return _SECONDS.get(folder.name, 0.0) * len(file) if folder.parent.name == "tests" else 0.0
