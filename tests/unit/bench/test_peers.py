"""A run counts only if every task ran once; peers are pinned, and their lock files name no host."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from bench.peers.contenders import GNOMON, PEERS
from bench.peers.installing import NEEDS
from bench.peers.measures import once

from gnomon.bench.functions import CallRecorder, count_calls, read_calls
from gnomon.bench.results import BenchError

FOLDER = Path(__file__).parents[3] / "bench" / "peers"
PIN = {
    "graphile_worker": ("package.json", '"graphile-worker": "{}"'),
    "pg_boss": ("package.json", '"pg-boss": "{}"'),
    "bullmq": ("package.json", '"bullmq": "{}"'),
    "river": ("go.mod", "riverqueue/river v{}"),
    "pgqueuer": ("requirements.lock", "pgqueuer=={} "),
    "procrastinate": ("requirements.lock", "procrastinate=={} "),
}


def test_each_call_is_recorded_with_its_moment(tmp_path: Path) -> None:
    file = tmp_path / "calls"

    async def record() -> None:
        recorder = CallRecorder(file)
        for number in (7, 8, 7):
            recorder.note(number)
        recorder.flush()
        recorder.flush()

    asyncio.run(record())
    with file.open("ab") as more:
        more.write(b"half a record")
    found = read_calls(file)
    assert count_calls(file) == 3
    assert {number: len(moments) for number, moments in found.items()} == {7: 2, 8: 1}
    assert found[7] == sorted(found[7])


def test_before_the_first_call_there_is_none(tmp_path: Path) -> None:
    assert read_calls(tmp_path / "calls") == {}
    assert count_calls(tmp_path / "calls") == 0


def test_every_task_once_gives_the_starts_in_order() -> None:
    assert once({1: [5.0], 0: [6.0], 9: [1.0]}, range(2), [9]) == [6.0, 5.0]


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ({0: [1.0]}, "1 did not run"),
        ({0: [1.0], 1: [1.0, 2.0]}, "1 ran more than once"),
        ({0: [1.0], 1: [1.0], 5: [1.0]}, "1 ran that nobody enqueued"),
        ({0: [1.0], 1: [1.0], 9: [1.0, 1.0]}, "1 ran more than once"),
    ],
)
def test_anything_else_gives_no_figure(calls: dict[int, list[float]], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        once(calls, range(2), [9])


def test_every_peer_is_installed_at_the_version_that_is_printed() -> None:
    assert PEERS.keys() == NEEDS.keys() == PIN.keys()
    for name, (file, pinned) in PIN.items():
        assert pinned.format(PEERS[name].version) in (FOLDER / name / file).read_text(), name


def test_everybody_has_settings_to_begin_with() -> None:
    for contender in (GNOMON, *PEERS.values()):
        assert contender.choices, contender.name
        assert len({json.dumps(each) for each in contender.choices}) == len(contender.choices)


def test_lock_files_name_no_host() -> None:
    files = [*FOLDER.glob("*/package-lock.json"), *FOLDER.glob("*/requirements.lock")]
    assert len(files) == 6
    named = {file: re.findall(r"https?://\S+", file.read_text()) for file in files}
    assert {file: hosts for file, hosts in named.items() if hosts} == {}


def test_what_is_locked_has_a_hash() -> None:
    for file in FOLDER.glob("*/package-lock.json"):
        packages = json.loads(file.read_text())["packages"]
        assert [name for name, each in packages.items() if name and "integrity" not in each] == []
