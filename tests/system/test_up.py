"""`gnomon up` from the outside: one command, a task through all of it, a restart, a clean end."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.commands import Running, clean_environment, gnomon, running
from tests.waiting import eventually_sync

pytestmark = pytest.mark.system


PROGRAM_IN_THE_FOLDER = """
from gnomon import Gnomon

app = Gnomon()

@app.task
async def greet(name: str) -> None: ...

print(greet.options(delay="1h").submit_sync("x").id)
"""


class Up:
    """A running `gnomon up`, and the commands that talk to it."""

    def __init__(self, folder: Path, command: Running, url: str) -> None:
        self._folder = folder
        self.command = command
        self.env = {"GNOMON_URL": url}

    def json(self, *arguments: str) -> Any:
        done = gnomon(*arguments, "--json", cwd=self._folder, env=self.env)
        assert done.code == 0, done.err
        return done.json

    def finished(self, task_id: str) -> dict[str, Any] | None:
        url = f"{self.env['GNOMON_URL']}/api/v1/tasks/{task_id}?wait=30"
        found = httpx.get(url, timeout=60.0).json()["finished_at"]
        return self.json("tasks", "show", task_id) if found else None


@contextmanager
def up(folder: Path) -> Iterator[Up]:
    """Everything on free ports, with the data in `folder`; ready when it says so."""
    with running("up", "--port", "0", cwd=folder) as command:

        def announced() -> re.Match[str] | None:
            assert command.process.poll() is None, command.errors
            return re.search(r"API\s+(http://\S+)/api/v1", command.errors)

        yield Up(folder, command, eventually_sync(announced, 60.0)[1])


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    lines = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, lines.splitlines())}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


@pytest.mark.timeout(240)
def test_a_task_from_the_command_line_to_its_receiver_and_over_a_restart(tmp_path: Path) -> None:
    with up(tmp_path) as first:
        told = first.command.errors
        assert told.count("made the schema in a new database") == 1
        assert "migration step" not in told  # a first start tells what matters to a person
        assert f"dashboard  {first.env['GNOMON_URL']}/" in told
        arguments = ["--port", "0", "--json", "--fail", "1"]
        with running("listen", *arguments, cwd=tmp_path) as receiver:
            url = receiver.event("listening")["url"]
            submitted = gnomon(
                "submit", f"{url}hello", "--payload", '{"n": 1.10}', "--type", "hello",
                cwd=tmp_path, env=first.env,
            )  # fmt: skip
            assert submitted.code == 0, submitted.err
            task_id = submitted.out.strip()
            calls = [receiver.event("call") for _ in range(2)]
            task = eventually_sync(lambda: first.finished(task_id))
            receiver.interrupt()
            summary = receiver.event("summary")
        assert [call["answered"] for call in calls] == [503, 200]
        for call in calls:
            assert call["webhook_id"] == task_id
            assert call["signature"] == "ok"
            assert call["body"] == '{"n": 1.10}'
            assert call["delay_seconds"] >= 0
        assert (summary["calls"], summary["tasks"], summary["duplicates"]) == (2, 1, 0)
        assert task["status"] == "COMPLETED"
        assert [each["outcome"] for each in task["executions"]] == ["failed", "succeeded"]
        assert [node["alive"] for node in first.json("nodes")["nodes"]] == [True]
        healthy = gnomon("doctor", cwd=tmp_path, env=first.env)
        assert healthy.code == 0, healthy.out
        program = [sys.executable, "-c", PROGRAM_IN_THE_FOLDER]
        done = subprocess.run(
            program, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert first.json("tasks", "show", done.stdout.strip())["payload"] == {"name": "x"}
        first.command.interrupt()
        assert first.command.wait() == 0

    kept = first.json("secrets", "list")
    assert len(kept["webhook_secrets"]) == 1
    with up(tmp_path) as second:
        assert second.json("tasks", "show", task_id) == task
        assert second.json("secrets", "list") == kept
        second.command.interrupt()
        assert second.command.wait() == 0


@pytest.mark.timeout(240)
def test_two_quick_interrupts_leave_no_process_behind(tmp_path: Path) -> None:
    with up(tmp_path) as everything:
        pids = family(everything.command.process.pid)
        assert len(pids) > 3  # itself, PostgreSQL, the API, the node
        everything.command.interrupt()
        everything.command.interrupt()
        assert everything.command.wait() == 0
    eventually_sync(lambda: not alive(pids))
    assert not (tmp_path / ".gnomon" / "postgres" / "postmaster.pid").exists()


@pytest.mark.timeout(240)
def test_a_killed_api_comes_back_and_a_second_up_is_refused(tmp_path: Path) -> None:
    with up(tmp_path) as everything:
        second = gnomon("up", "--port", "0", cwd=tmp_path)
        assert second.code == 1
        assert f"gnomon is already up, at {everything.env['GNOMON_URL']}" in second.err
        assert second.err.count("\n") == 1

        lines = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(everything.command.process.pid)],
            capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        [api] = [int(line.split()[0]) for line in lines if line.endswith("gnomon api")]
        os.kill(api, signal.SIGKILL)

        def answers() -> bool:
            return gnomon("tasks", "list", cwd=tmp_path, env=everything.env).code == 0

        eventually_sync(lambda: api not in alive({api}))
        eventually_sync(answers)
        everything.command.interrupt()
        assert everything.command.wait() == 0
