"""A durable PostgreSQL of our own, and a fresh database on it for each measure."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import asyncpg

from bench.trees import HERE, Tree, migrate
from gnomon.bench.arena import Arena
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.embedded.roles import USER
from gnomon.wiring import processes as wiring


class Stage:
    """The server."""

    def __init__(self, server: EmbeddedServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def arena(self, tree: Tree = HERE) -> AsyncIterator[Arena]:
        """A fresh database with the schema of `tree`, dropped afterwards."""
        async with self.empty_database() as dsn:
            folder = self.folder / urlsplit(dsn).path.strip("/")
            folder.mkdir()
            if tree is HERE:
                await wiring.prepare(dsn)
            else:
                await migrate(dsn, folder, tree)
            connection = await asyncpg.connect(dsn)
            try:
                yield Arena(dsn, folder, connection, tree.program)
            finally:
                connection.terminate()

    @asynccontextmanager
    async def empty_database(self) -> AsyncIterator[str]:
        name = f"bench_{next(self._numbers)}"
        await self._execute(f"CREATE DATABASE {name} OWNER {USER}")
        await self._execute(f"GRANT pg_checkpoint TO {USER}")  # for what is measured to begin alike
        parts = urlsplit(self.server.dsn)
        try:
            yield f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"
        finally:
            await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def version(self) -> str:
        connection = await asyncpg.connect(self.server.dsn)
        try:
            return str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.server.superuser_dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def stage() -> Iterator[Stage]:
    """A server with its default settings, fsync included, in a folder that is removed."""
    with TemporaryDirectory(prefix="gnomon-bench-") as name:
        folder = Path(name)
        with EmbeddedServer(folder / "data") as server:
            yield Stage(server, folder)
