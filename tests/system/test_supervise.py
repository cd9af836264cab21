"""The supervisor, with real processes. A pipe that all of them hold ends when the last one does."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

SUPERVISOR = r"""
import os, sys
from gnomon.cli.run.supervise import Child, Interrupts, Policy, run

def child(name, code):
    return Child(name, [sys.executable, "-c", code, name])

ready = lambda: os.write(1, b"all ready\n")
one_within = 2.0
policy = Policy()
{setup}
with Interrupts(one_within=one_within) as interrupts:
    code = run(children, on_ready=ready, interrupts=interrupts, policy=policy)
sys.exit(code)
"""

# os.write, because a print may reach the pipe in pieces, between those of another process.
# Says what happens to it; stops on SIGTERM.
POLITE = r"""
import os, signal, sys
def stop(*_):
    os.write(1, f"{sys.argv[1]} stopped\n".encode())
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
os.write(1, f"{sys.argv[1]} {os.getpid()}\n".encode())
while True:
    signal.pause()
"""

# Says that it was asked to stop, and does so only on SIGUSR1.
SLOW = r"""
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os.write(1, f"{sys.argv[1]} asked\n".encode()))
signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
os.write(1, f"{sys.argv[1]} {os.getpid()}\n".encode())
while True:
    signal.pause()
"""

# Has a child of its own, which it does not look after.
FORKING = (
    r"""
import os, signal
if os.fork() == 0:
    os.write(1, f"inner {os.getpid()}\n".encode())
    while True:
        signal.pause()
"""
    + POLITE
)


class Running:
    """A supervisor in its own process."""

    def __init__(self, setup: str, errors: Path) -> None:
        self._errors = errors
        names = f"POLITE, SLOW, FORKING = {(POLITE, SLOW, FORKING)!r}\n"
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SUPERVISOR.format(setup=names + setup)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )

    def line(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().split()

    def lines_to_the_end(self) -> list[str]:
        """All that is still said. Comes back only when no process is left to say more."""
        assert self.process.stdout is not None
        return self.process.stdout.read().decode().splitlines()

    def pids(self, count: int) -> dict[str, int]:
        """Wait for the children to run and for the supervisor to know it."""
        said = [self.line() for _ in range(count + 1)]
        assert ["all", "ready"] in said
        return {name: int(pid) for name, pid in said if name != "all"}

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def code(self) -> int:
        return self.process.wait()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def close(self) -> None:
        self.process.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait()


Start = Callable[[str], Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Running] = []

    def start_one(setup: str) -> Running:
        running.append(Running(setup, tmp_path / "stderr"))
        return running[-1]

    yield start_one
    for each in running:
        each.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_children_in_reverse_order(start: Start, number: signal.Signals) -> None:
    supervisor = start("children = [child(n, POLITE) for n in ('first', 'second', 'third')]")
    supervisor.pids(3)
    supervisor.send(number)
    assert supervisor.lines_to_the_end() == ["third stopped", "second stopped", "first stopped"]
    assert supervisor.code() == 0
    assert supervisor.errors == ""


def test_the_next_child_is_asked_only_when_the_one_before_has_stopped(start: Start) -> None:
    supervisor = start("children = [child('first', POLITE), child('second', SLOW)]")
    pids = supervisor.pids(2)
    supervisor.send(signal.SIGTERM)
    assert supervisor.line() == ["second", "asked"]
    os.kill(pids["first"], 0)  # still there
    os.kill(pids["second"], signal.SIGUSR1)
    assert supervisor.lines_to_the_end() == ["first stopped"]
    assert supervisor.code() == 0


def test_children_that_stop_together_are_all_asked_at_once(start: Start) -> None:
    supervisor = start(
        "policy = Policy(together=True)\nchildren = [child(n, SLOW) for n in ('first', 'second')]"
    )
    pids = supervisor.pids(2)
    supervisor.send(signal.SIGTERM)
    assert {supervisor.line()[0] for _ in range(2)} == {"first", "second"}
    for pid in pids.values():
        os.kill(pid, signal.SIGUSR1)
    assert supervisor.code() == 0
    assert supervisor.errors == ""


def test_a_second_interrupt_at_once_is_the_same_one(start: Start) -> None:
    supervisor = start("children = [child('api', SLOW)]")
    pids = supervisor.pids(1)
    supervisor.send(signal.SIGINT)
    assert supervisor.line() == ["api", "asked"]
    supervisor.send(signal.SIGINT)
    os.kill(pids["api"], signal.SIGUSR1)
    assert supervisor.code() == 0
    assert supervisor.errors == ""


def test_a_later_interrupt_forces_the_stop(start: Start) -> None:
    supervisor = start("one_within = 0.0; children = [child('first', SLOW), child('second', SLOW)]")
    supervisor.pids(2)
    supervisor.send(signal.SIGINT)
    assert supervisor.line() == ["second", "asked"]
    supervisor.send(signal.SIGINT)
    supervisor.lines_to_the_end()
    assert supervisor.code() == 1
    assert "second was killed before it had stopped" in supervisor.errors


def test_a_child_that_does_not_stop_is_killed_at_the_deadline(start: Start) -> None:
    supervisor = start("policy = Policy(stop_seconds=0.1); children = [child('api', SLOW)]")
    supervisor.pids(1)
    supervisor.send(signal.SIGTERM)
    assert supervisor.lines_to_the_end() == ["api asked"]
    assert supervisor.code() == 1


def test_a_child_that_dies_is_started_again(start: Start) -> None:
    supervisor = start("children = [child('node', POLITE), child('api', POLITE)]")
    pids = supervisor.pids(2)
    os.kill(pids["api"], signal.SIGKILL)
    name, pid = supervisor.line()
    assert name == "api"
    assert int(pid) != pids["api"]
    assert "api was killed by signal 9; starting it again in 0.2 s" in supervisor.errors
    supervisor.send(signal.SIGTERM)
    assert supervisor.lines_to_the_end() == ["api stopped", "node stopped"]
    assert supervisor.code() == 0


def test_what_a_child_leaves_in_its_group_dies_with_it(start: Start) -> None:
    supervisor = start("children = [child('api', FORKING)]")
    said = dict(supervisor.line() for _ in range(3))
    os.kill(int(said["api"]), signal.SIGKILL)
    assert sorted(supervisor.line()[0] for _ in range(2)) == ["api", "inner"]
    supervisor.send(signal.SIGTERM)
    # The pipe ends, so both inner processes, which nobody asked to stop, are gone too.
    assert supervisor.lines_to_the_end() == ["api stopped"]
    assert supervisor.code() == 0


def test_a_child_that_always_fails_ends_everything(start: Start) -> None:
    supervisor = start(
        "policy = Policy(first_delay=0.01)\n"
        "children = [child('node', POLITE), child('api', 'import sys; sys.exit(3)')]"
    )
    assert "node stopped" in supervisor.lines_to_the_end()
    assert supervisor.code() == 1
    assert supervisor.errors.count("api exited with 3; starting it again") == 4
    last = "gnomon: api exited with 3, 5 times in a row; stopping everything"
    assert supervisor.errors.splitlines()[-1] == last


def test_a_child_that_cannot_be_started_ends_everything(start: Start) -> None:
    supervisor = start("children = [child('node', POLITE), Child('api', ['/does/not/exist'])]")
    supervisor.lines_to_the_end()
    assert supervisor.code() == 1
    assert "api cannot be started" in supervisor.errors


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_children_die_with_a_killed_supervisor(start: Start) -> None:
    supervisor = start("children = [child('node', SLOW), child('api', SLOW)]")
    supervisor.pids(2)
    supervisor.send(signal.SIGKILL)
    assert supervisor.lines_to_the_end() == []


def test_ready_waits_for_the_children_that_say_so(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "listening"
    supervisor = start(
        f"from pathlib import Path; listening = Path({str(flag)!r}).exists\n"
        "children = [Child('api', [sys.executable, '-c', POLITE, 'api'], ready=listening)]"
    )
    assert supervisor.line()[0] == "api"
    flag.touch()
    assert supervisor.line() == ["all", "ready"]
    supervisor.send(signal.SIGTERM)
    assert supervisor.code() == 0


def test_an_interrupt_before_the_start_starts_nothing(start: Start) -> None:
    supervisor = start(
        "children = [child('api', POLITE)]\n"
        "import os, signal\n"
        "class Interrupts(Interrupts):\n"
        "    def __enter__(self):\n"
        "        super().__enter__()\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        return self\n"
    )
    assert supervisor.lines_to_the_end() == []
    assert supervisor.code() == 0


def test_tending_happens_when_any_process_of_ours_ends(start: Start) -> None:
    supervisor = start(
        "import subprocess\n"
        "other = subprocess.Popen([sys.executable, '-c', SLOW, 'other'])\n"
        "def tend():\n"
        "    if other.poll() is not None: os.write(1, b'other ended\\n')\n"
        "real = run\n"
        "run = lambda *a, **k: real(*a, tend=tend, **k)\n"
        "children = [child('api', POLITE)]\n"
    )
    pids = supervisor.pids(2)
    os.kill(pids["other"], signal.SIGUSR1)
    assert supervisor.line() == ["other", "ended"]
    supervisor.send(signal.SIGTERM)
    assert supervisor.code() == 0
