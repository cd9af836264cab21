"""The processes under measurement, started as in production: `python -m gnomon …`."""

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gnomon.bench.functions import CALLS_VARIABLE
from gnomon.bench.results import BenchError
from gnomon.node.run.parent import die_with_parent

START_SECONDS = 60.0
STOP_SECONDS = 40.0

T = TypeVar("T")
_numbers = itertools.count(1)


class Program(msgspec.Struct, frozen=True):
    """The Gnomon that is measured: its Python, and the variables that it is started with."""

    python: str
    environ: Mapping[str, str]


INSTALLED = Program(sys.executable, {"GNOMON_NODE_APP": "gnomon.bench.handlers:app"})


class Process:
    """One `gnomon` command that has said that it serves."""

    def __init__(self, process: "subprocess.Popen[bytes]", started_at: float, log: Path) -> None:
        self.pid = process.pid
        self.started_at = started_at  # seconds since the epoch: when it was started
        self.ready_at = 0.0  # and when it said that it serves
        self.where = ""
        self._process = process
        self._log = log

    async def ready(self) -> None:
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not self.where:
            for event in self._events():
                if str(event.get("event")).endswith(" started"):
                    self.where = str(event["where"])
                    self.ready_at = datetime.fromisoformat(event["timestamp"]).timestamp()
            if self._process.poll() is not None or asyncio.get_running_loop().time() > deadline:
                raise BenchError(f"a process did not start: {self._log.read_text()[-2000:]}")
            await asyncio.sleep(0.01)

    def peak_memory(self) -> int | None:
        """The most that it has held in memory, in bytes, where the system tells."""
        status = Path(f"/proc/{self.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        kilobytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
        return kilobytes[0] * 1024 if kilobytes else None

    async def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BenchError(f"{self._log.stem} did not stop when told to") from None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _events(self) -> list[dict[str, Any]]:
        found = []
        for line in self._log.read_text().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
        return found


@asynccontextmanager
async def gnomon(
    command: str,
    dsn: str,
    folder: Path,
    program: Program = INSTALLED,
    arguments: Sequence[str] = (),
    **settings: str,
) -> AsyncIterator[Process]:
    """`gnomon api` or `gnomon scheduler`, with default settings where none is given, until the
    context is left. `arguments` are those of the command."""
    log = folder / f"{command}-{next(_numbers)}.log"
    with log.open("wb") as output:
        started_at = time.time()
        popen = subprocess.Popen(
            [program.python, "-m", "gnomon", command, *arguments],
            env=environ_of(program, dsn, folder, settings),
            cwd=folder,  # where no gnomon.toml is
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C in a terminal is for whoever measures
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    process = Process(popen, started_at, log)
    try:
        await process.ready()
        yield process
        await process.stop()
    finally:
        process.kill()


async def helper(module: str, argument: object, answer: type[T], path: Path | None = None) -> T:
    """Run one of our own programs to its end. It takes one JSON argument and prints JSON. `path`
    is where its package lies, if not where Gnomon's does."""
    program = [sys.executable, "-P", "-m", module, msgspec.json.encode(argument).decode()]
    environ = dict(os.environ) | ({} if path is None else {"PYTHONPATH": str(path)})
    return msgspec.json.decode(await output_of(program, env=environ), type=answer)


async def output_of(
    program: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *program,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=partial(die_with_parent, os.getpid()),
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise BenchError(errors.decode(errors="replace").strip()[-2000:])
    return output


def calls_file(folder: Path) -> Path:
    """Where the function `stamp` of the processes in this folder writes."""
    return folder / "calls"


def environ_of(
    program: Program, dsn: str, folder: Path, settings: Mapping[str, str]
) -> Mapping[str, str]:
    """Default settings, but for those given: none of whoever measures."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("GNOMON_")}
    return {
        **own,
        "DATABASE_URL": dsn,
        "GNOMON_DATABASE_DATA_DIR": str(folder / "gnomon"),
        "GNOMON_API_PORT": "0",
        "GNOMON_OUTPUT_LOG_FORMAT": "json",
        CALLS_VARIABLE: str(calls_file(folder)),
        **program.environ,
        **{f"GNOMON_{name.upper()}": value for name, value in settings.items()},
    }
