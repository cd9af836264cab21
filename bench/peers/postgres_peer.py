"""A peer that keeps its jobs in PostgreSQL."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import msgspec

from bench.peers.port import Producer, Reading, Settings, Worker
from bench.peers.programs import Program
from bench.peers.queue_table import QueueTable, Statements
from bench.stage import Stage


class PostgresPlace:
    """A database with the peer's tables."""

    def __init__(self, program: Program, table: QueueTable, folder: Path) -> None:
        self._program = program
        self._table = table
        self._folder = folder

    @property
    def calls(self) -> Path:
        return self._folder / "calls"

    @asynccontextmanager
    async def producing(self) -> AsyncIterator[Producer]:
        yield self._program

    def working(self, *, until_empty: bool) -> AbstractAsyncContextManager[Worker]:
        return self._program.working(self.calls, until_empty=until_empty)

    async def unfinished(self) -> int:
        return await self._table.unfinished()

    async def settled(self, timeout: float) -> float:
        return await self._table.settled(timeout)

    async def reading(self, *, alone: bool = False) -> Reading:
        return await self._table.reading(alone=alone)


class PostgresPeer(msgspec.Struct, kw_only=True):
    """What the adapter of such a peer says about it."""

    name: str
    title: str
    version: str
    choices: Sequence[Settings]
    command: Sequence[str]
    statements: Statements
    environ: Mapping[str, str] = {}
    single_connections: int = 16
    bulk_connections: int = 2
    most: int | None = None
    remark: str = ""

    @asynccontextmanager
    async def place(self, stage: Stage, settings: Settings) -> AsyncIterator[PostgresPlace]:
        async with stage.empty_database() as dsn:
            folder = stage.folder / urlsplit(dsn).path.strip("/")
            folder.mkdir()
            program = Program(self.command, self.environ, dsn, settings)
            await program.install()
            connection = await asyncpg.connect(dsn)
            try:
                table = QueueTable(connection, stage.server.pid, self.statements)
                yield PostgresPlace(program, table, folder)
            finally:
                connection.terminate()
