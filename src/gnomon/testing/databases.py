"""Databases for tests: one server for each test process, a fresh database for each test.

A test's database is a copy of a template that was migrated once. Processes that run tests in
parallel have a server each: they start side by side, and no test meets another's.
"""

import asyncio
import atexit
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from gnomon.store.embedded import EmbeddedError
from gnomon.store.embedded.roles import USER

TEMPLATE = "gnomon_template"  # made by the server's process
_STOP_SECONDS = 30.0


def on_database(dsn: str, name: str) -> str:
    """The same server and role, another database."""
    parts = urlsplit(dsn)
    return f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"


class DatabaseServer:
    """A PostgreSQL that lasts as long as this process at the most. Blocking."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="gnomon-test-"))
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "gnomon.testing.server_process", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What ends a whole process group, as a closed terminal does, must not end it before it
            # has stopped PostgreSQL.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            told = json.loads(answer.readline() or '{"error": "it ended at once"}')
        if "error" in told:
            raise EmbeddedError(f"the PostgreSQL for tests did not start: {told['error']}")
        self.dsn: str = told["dsn"]
        self.superuser_dsn: str = told["superuser_dsn"]
        self.pid: int = told["pid"]  # of PostgreSQL itself
        self._numbers = itertools.count(1)

    def stop(self) -> None:
        """End it, and remove its data."""
        if os.getpid() != self._owner:
            return  # a fork of the process that it belongs to
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=_STOP_SECONDS)

    async def create(self) -> str:
        """A fresh database; gives its name."""
        name = f"test_{next(self._numbers)}"
        # Without fsync, copying files is the quicker way.
        how = f"OWNER {USER} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY"
        await self._execute(f"CREATE DATABASE {name} {how}")
        return name

    async def drop(self, name: str) -> None:
        """Drop a database, whoever is still connected."""
        await self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def dsn_of(self, name: str) -> str:
        return on_database(self.dsn, name)

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.superuser_dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


_lock = threading.Lock()
_servers: dict[int, DatabaseServer] = {}  # by process: a fork starts its own


def server() -> DatabaseServer:
    """The server of this process, started when it is first asked for. Blocking."""
    with _lock:
        found = _servers.get(os.getpid())
        if found is None:
            found = _servers[os.getpid()] = DatabaseServer()
            atexit.register(stop_server)
        return found


def stop_server() -> None:
    """End the server of this process, if it has one."""
    with _lock:
        found = _servers.pop(os.getpid(), None)
    if found is not None:
        found.stop()


@asynccontextmanager
async def fresh_database() -> AsyncIterator[str]:
    """The DSN of a fresh, migrated database, which is dropped at the end."""
    found = await asyncio.to_thread(server)
    name = await found.create()
    try:
        yield found.dsn_of(name)
    finally:
        await found.drop(name)
