"""The `gnomon` command as tests run it: in a process of its own, in a folder of its own."""

import asyncio
import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.settings import settings_with

from gnomon.cli.main import main
from gnomon.clock import SystemClock
from gnomon.wiring.api import serve

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
def api_running(dsn: str, port: int, data_dir: Path, **more: Any) -> Iterator[None]:
    """An API on that database, without a node: nothing runs, so nothing moves. It runs in a thread
    of this process, which has imported it already."""
    settings = settings_with(api_port=port, database_data_dir=data_dir, **more)
    with ThreadPoolExecutor(1) as thread:
        served: queue.Queue[Callable[[], object]] = queue.Queue()

        async def run() -> None:
            loop = asyncio.get_running_loop()
            stopping = asyncio.Event()

            def on_started(_url: str) -> None:
                served.put(partial(loop.call_soon_threadsafe, stopping.set))

            async with asyncio.TaskGroup() as group:
                api = group.create_task(serve(settings, dsn, SystemClock(), on_started))
                await stopping.wait()
                api.cancel()

        api = thread.submit(asyncio.run, run())
        api.add_done_callback(lambda _: served.put(lambda: None))
        stop = served.get(timeout=TIMEOUT_SECONDS)
        try:
            yield
        finally:
            stop()
            api.result(TIMEOUT_SECONDS)
