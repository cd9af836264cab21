"""The order of a run in several processes."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling import KNOWN, spread


class Collected(NamedTuple):
    path: Path
    number: int


def collected(**counts: int) -> list[Collected]:
    """So many tests in one file of each folder."""
    return [
        Collected(Path("tests", folder, "test_it.py"), number)
        for folder, count in counts.items()
        for number in range(count)
    ]


@given(
    st.dictionaries(st.sampled_from(["system", "plans", "cron", "model"]), st.integers(1, 20)),
    st.integers(1, 6),
)
def test_every_test_is_there_once_and_files_stay_together(
    counts: dict[str, int], processes: int
) -> None:
    tests = collected(**counts)
    ordered = spread(tests, processes)
    assert sorted(ordered) == sorted(tests)
    for folder in ("system", "plans"):
        places = [at for at, test in enumerate(ordered) if test.path.parent.name == folder]
        assert places == [*range(min(places, default=0), min(places, default=0) + len(places))]


@pytest.mark.parametrize("processes", [2, 4])
def test_each_process_begins_with_long_ones_and_ends_with_short_ones(processes: int) -> None:
    long = [
        Collected(Path("tests", "system", f"test_{file}.py"), number)
        for file in range(8)
        for number in range(3)
    ]
    ordered = spread([*collected(cron=76), *long], processes)
    size = len(ordered) // processes
    for process in range(processes):
        part = [test.path.parent.name for test in ordered[process * size : (process + 1) * size]]
        assert Counter(part) == {"system": 24 // processes, "cron": 76 // processes}
        assert part == sorted(part, reverse=True)


@pytest.mark.parametrize("processes", [2, 4])
def test_tests_that_wait_are_beside_tests_that_work(processes: int) -> None:
    work = [
        Collected(Path("tests", "plans", f"test_{file}.py"), number)
        for file in range(8)
        for number in range(12)
    ]
    wait = [
        Collected(Path("tests", "system", f"test_{file}.py"), number)
        for file in range(8)
        for number in range(6)
    ]
    ordered = spread([*work, *wait], processes)
    size = len(ordered) // processes
    first = [ordered[process * size].path.parent.name for process in range(processes)]
    assert first == ["system", "plans"] * (processes // 2)


def test_the_files_that_are_known_to_take_long_exist() -> None:
    here = Path(__file__).parents[1]
    assert [name for name in KNOWN if not (here / name).exists()] == []
