"""The `gnomon` command as tests run it: in a process of its own, in a folder of its own."""

import asyncio
import io
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually_sync

from gnomon.cli.main import main

PROGRAM = [sys.executable, "-m", "gnomon"]
# Generous: a failure is found by what was printed, not by how long it took.
TIMEOUT_SECONDS = 60.0


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, less what would configure Gnomon."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GNOMON_")}
    kept.pop("DATABASE_URL", None)
    return kept | dict(extra or {})


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def gnomon(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: str = ""
) -> Finished:
    """Run one command to its end."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env=clean_environment(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


def gnomon_here(*arguments: str, stdin: str = "") -> Finished:
    """The same within this process and its environment: a tenth of the time."""
    out, err = io.StringIO(), io.StringIO()
    typed = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(arguments)
    finally:
        sys.stdin = typed
    return Finished(int(ended.value.code or 0), out.getvalue(), err.getvalue())


async def cli(*arguments: str, code: int = 0, stdin: str = "") -> Finished:
    """The same beside a server in this loop, once its exit code is the expected one."""
    finished = await asyncio.to_thread(gnomon_here, *arguments, stdin=stdin)
    assert finished.code == code, finished
    return finished


class Running:
    """A command that goes on, and the lines it prints on stdout."""

    def __init__(self, process: "subprocess.Popen[str]", errors: Path) -> None:
        self.process = process
        self._errors = errors
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def line(self, wanted: Callable[[str], bool] = lambda _: True) -> str:
        """The next line that is `wanted`."""
        while (line := self._lines.get(timeout=TIMEOUT_SECONDS)) is not None:
            if wanted(line):
                return line
        raise AssertionError(f"it ended before that; stderr:\n{self.errors}")

    def event(self, kind: str) -> dict[str, Any]:
        """The next JSON line of that event."""
        found: dict[str, Any] = json.loads(self.line(lambda line: f'"event":"{kind}"' in line))
        return found

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        return self.process.wait(timeout=TIMEOUT_SECONDS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


@contextmanager
def running(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """A command in the background. It is killed at the end, if it has not ended by then."""
    errors = cwd / f"{arguments[0]}.stderr"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=cwd,
            env=clean_environment({"PYTHONUNBUFFERED": "1", **(env or {})}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    with process:
        command = Running(process, errors)
        try:
            yield command
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def api_running(dsn: str, port: int, cwd: Path) -> Iterator[None]:
    """An API process on that database, without a node: nothing runs, so nothing moves."""
    with running("api", "--port", str(port), cwd=cwd, env={"DATABASE_URL": dsn}) as api:

        def listening() -> bool:
            assert api.process.poll() is None, api.errors
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return True
            return False

        eventually_sync(listening)
        yield
        api.process.terminate()
        assert api.wait() == 0, api.errors
