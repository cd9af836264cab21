"""The order of a run in several processes: what takes long is spread and comes first.

The processes begin with an equal number of tests each, in the order of collection, and one that has
none left takes half of another's, from the end. Left alone, one process has all browsers and
another all tests without a server, and the long ones come last, when nobody is left to share with.

Tests of real processes wait for more than half of their time, for leases and pauses; the others
with a server hardly do. So every second process has the one kind first and the others the other:
all of one kind at once leave the processor idle, and then all of the other queue for it.
"""

import heapq
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeVar

# Seconds of a test, about, by its folder; the others take next to none and fill up the end.
_SECONDS = {"system": 4.0, "types": 15.0, "dashboard": 0.5, "integration": 0.4, "plans": 0.9}
# Seconds of a file, where its tests take much longer than others of its folder, or much less.
KNOWN = {
    "system/test_proof.py": 160.0,
    "system/test_bench_quick.py": 130.0,
    "system/test_bench_command.py": 120.0,
    "system/test_remote_gateway.py": 90.0,
    "integration/test_rabbitmq_pipe.py": 75.0,
    "system/test_crash.py": 70.0,
    "system/test_broker_campaigns.py": 70.0,
    "dashboard/test_every_page.py": 65.0,
    "system/test_worker.py": 65.0,
    "system/test_poison.py": 45.0,
    "dashboard/test_live.py": 40.0,
    "integration/test_faults.py": 40.0,
    "system/test_crawl.py": 30.0,
    "system/test_results.py": 25.0,
    "system/test_proof_plan.py": 5.0,
    "system/test_proof_network.py": 5.0,
    "system/test_supervise.py": 5.0,
}
_WAITING = "system"


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
    for part in parts[1::2]:
        part.sort(key=_waits)  # which keeps the order of all others
    remaining = sum(map(len, parts)) + len(short)
    for place, part in enumerate(parts):
        size = remaining // (processes - place)
        fill = max(size - len(part), 0)
        part += short[:fill]
        del short[:fill]
        remaining -= len(part)
    return [test for part in parts for test in part] + short


def _waits(test: Located) -> bool:
    return test.path.parent.name == _WAITING


def _seconds(file: Sequence[Located]) -> float:
    path = file[0].path
    if path.parent.parent.name != "tests" or path.parent.name not in _SECONDS:
        return 0.0
    return KNOWN.get(f"{path.parent.name}/{path.name}") or _SECONDS[path.parent.name] * len(file)
