"""The processes under measurement, started as in production: `python -m gnomon …`."""

import asyncio
import contextlib
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

from bench.functions import APP, FUNCTIONS, STAMPS_VARIABLE
from bench.results import BenchError
from bench.trees import HERE, ROOT, Tree
from gnomon.node.run.parent import die_with_parent

START_SECONDS = 60.0
STOP_SECONDS = 40.0

T = TypeVar("T")


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
    tree: Tree = HERE,
    arguments: Sequence[str] = (),
    **settings: str,
) -> AsyncIterator[Process]:
    """`gnomon api` or `gnomon scheduler`, with default settings where none is given, until the
    context is left. `arguments` are those of the command."""
    log = folder / f"{command}.log"
    log.unlink(missing_ok=True)
    with log.open("wb") as output:
        started_at = time.time()
        popen = subprocess.Popen(
            [tree.python, "-m", "gnomon", command, *arguments],
            env=_environ(dsn, folder, tree, settings),
            cwd=folder,  # where no gnomon.toml is
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    process = Process(popen, started_at, log)
    try:
        await process.ready()
        yield process
        await process.stop()
    finally:
        process.kill()


async def helper(module: str, argument: object, answer: type[T]) -> T:
    """Run one of our own programs to its end. It takes one JSON argument and prints JSON."""
    program = [sys.executable, "-m", module, msgspec.json.encode(argument).decode()]
    return msgspec.json.decode(await output_of(program), type=answer)


async def migrate(dsn: str, folder: Path, tree: Tree) -> None:
    """Bring a database up to date with the code of `tree`."""
    program = [str(tree.python), "-m", "gnomon", "migrate"]
    await output_of(program, cwd=folder, env=_environ(dsn, folder, tree, {}))


async def output_of(
    program: Sequence[str], cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *program,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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


def stamps_file(folder: Path) -> Path:
    return folder / "stamps"


def _handlers(tree: Tree) -> dict[str, str]:
    if (tree.root / "src" / "gnomon" / "sdk").is_dir():
        return {"GNOMON_NODE_APP": APP}
    return {"GNOMON_TARGETS_FUNCTIONS": FUNCTIONS}


def _environ(dsn: str, folder: Path, tree: Tree, settings: Mapping[str, str]) -> Mapping[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("GNOMON_")}
    return {
        **own,
        "DATABASE_URL": dsn,
        "GNOMON_DATABASE_DATA_DIR": str(folder / "gnomon"),
        "GNOMON_API_PORT": "0",
        **_handlers(tree),
        "GNOMON_OUTPUT_LOG_FORMAT": "json",
        "PYTHONPATH": os.pathsep.join([str(tree.root / "src"), str(ROOT)]),
        STAMPS_VARIABLE: str(stamps_file(folder)),
        **{f"GNOMON_{name.upper()}": value for name, value in settings.items()},
    }
