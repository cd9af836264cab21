"""A durable PostgreSQL of our own, and a fresh database on it for each measure."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
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
        self._template: str | None = None  # a database with the schema of HERE, to copy

    @asynccontextmanager
    async def arena(self, tree: Tree = HERE) -> AsyncIterator[Arena]:
        """A fresh database with the schema of `tree`, dropped afterwards."""
        template = await self._prepared() if tree is HERE else None
        async with self._database(template) as dsn:
            folder = self.folder / urlsplit(dsn).path.strip("/")
            folder.mkdir()
            if tree is not HERE:
                await migrate(dsn, folder, tree)
            connection = await asyncpg.connect(dsn)
            try:
                yield Arena(dsn, folder, connection, tree.program)
            finally:
                connection.terminate()

    async def _prepared(self) -> str:
        """The database that arenas are copies of: to migrate each of them takes much longer."""
        if self._template is None:
            name = f"bench_{next(self._numbers)}"
            await self._create(name)
            await wiring.prepare(self._dsn(name))
            self._template = name
        return self._template

    def empty_database(self) -> AbstractAsyncContextManager[str]:
        return self._database(None)

    @asynccontextmanager
    async def _database(self, template: str | None) -> AsyncIterator[str]:
        name = f"bench_{next(self._numbers)}"
        await self._create(name, "" if template is None else f" TEMPLATE {template}")
        await self._execute(f"GRANT pg_checkpoint TO {USER}")  # for what is measured to begin alike
        try:
            yield self._dsn(name)
        finally:
            await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _create(self, name: str, how: str = "") -> None:
        await self._execute(f"CREATE DATABASE {name} OWNER {USER}{how}")

    def _dsn(self, name: str) -> str:
        parts = urlsplit(self.server.dsn)
        return f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"

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
