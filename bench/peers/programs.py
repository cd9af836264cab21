"""Runs the programs of peers: see python_program.py for what they are told, and what they say."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from bench.peers.port import Offer, Offered, Settings
from bench.trees import ROOT
from gnomon.bench.processes import output_of
from gnomon.bench.results import BenchError
from gnomon.node.run.parent import die_with_parent

START_SECONDS = 60.0
ENDED_SECONDS = 300.0  # for a program that enqueues or installs
STOP_SECONDS = 10.0


class Ready(msgspec.Struct, frozen=True):
    """What a worker says when it is about to take jobs."""

    ready_at: float


class WorkerProcess:
    """A worker of a peer that has said that it is ready."""

    def __init__(self, pid: int, ready_at: float) -> None:
        self.pid = pid
        self.ready_at = ready_at


class Program:
    """A peer's program on one database."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], url: str, settings: Settings
    ) -> None:
        self._command = command
        self._environ = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
        self._url = url
        self._settings = settings

    async def install(self) -> None:
        await self._output("install", {})

    async def offer(self, offer: Offer) -> Offered:
        asked = {k: v for k, v in msgspec.to_builtins(offer).items() if v is not None}
        return msgspec.json.decode(await self._output("load", asked), type=Offered)

    @asynccontextmanager
    async def working(self, calls: Path, *, until_empty: bool) -> AsyncIterator[WorkerProcess]:
        asked = {"records": str(calls), "until_empty": until_empty}
        log = calls.with_name("worker.log")
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *self._arguments("work", asked),
                cwd=ROOT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        try:
            yield WorkerProcess(process.pid, await _ready_at(process))
            if process.returncode is not None:
                raise BenchError(f"the worker ended: {log.read_text()[-500:]}")
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except (TimeoutError, msgspec.DecodeError):
            raise BenchError(f"a worker did not start or stop: {log.read_text()[-500:]}") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _output(self, verb: str, asked: dict[str, object]) -> bytes:
        try:
            async with asyncio.timeout(ENDED_SECONDS):
                return await output_of(self._arguments(verb, asked), cwd=ROOT, env=self._environ)
        except TimeoutError:
            raise BenchError(f"`{verb}` took more than {ENDED_SECONDS:.0f} s") from None

    def _arguments(self, verb: str, asked: dict[str, object]) -> list[str]:
        argument = {"url": self._url, "settings": self._settings, **asked}
        return [*self._command, verb, msgspec.json.encode(argument).decode()]


async def _ready_at(process: asyncio.subprocess.Process) -> float:
    assert process.stdout is not None
    async with asyncio.timeout(START_SECONDS):
        line = await process.stdout.readline()
    return msgspec.json.decode(line, type=Ready).ready_at
