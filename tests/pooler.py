"""PgBouncer in front of the test server: what goes through `database_dsn` goes through it.

A test module that imports these fixtures runs all its tests so; `connection` still goes straight
to the server, to look behind the code under test.
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import pytest
from tests.conftest import connected, on_database
from tests.waiting import eventually_sync

from gnomon.store.embedded import identity

MISSING = "pgbouncer is not installed (Debian: apt-get install pgbouncer)"

# Few servers, in turn: whoever counts on meeting the same one again is soon mistaken.
_CONFIG = """
[databases]
* = {server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
server_round_robin = 1
"""


def program() -> str | None:
    """Debian keeps it where only root's PATH leads."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """A PgBouncer in transaction mode in front of the server of `dsn`, on a port of its own."""

    def __init__(self, dsn: str, folder: Path, size: int = 4) -> None:
        found = program()
        assert found is not None, MISSING
        self._program = found
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._config = folder / "pgbouncer.ini"
        self._log = folder / "pgbouncer.log"
        self._config.write_text(_CONFIG.format(server=_server(dsn), port=self.port, size=size))
        # It refuses to run as root, like PostgreSQL, and must reach the same socket.
        self._who = identity.choose(folder, folder / "none", created=True)
        self._who.own(self._config)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._who.command(self._program, self._config),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._who.popen_options(),
            )
        eventually_sync(self._listens)

    def kill(self) -> None:
        """At once, in the middle of whatever it is doing."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def to(self, dsn: str) -> str:
        """The way to the database of `dsn` that leads through here."""
        return f"postgresql://gnomon@127.0.0.1:{self.port}/{urlsplit(dsn).path.strip('/')}"

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1.0).close()
        except OSError:
            return False
        return True


def _server(dsn: str) -> str:
    """The address in PgBouncer's words."""
    parts = urlsplit(dsn)
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    words = {
        "host": parts.hostname or asked["host"],
        "port": str(parts.port or asked.get("port", "5432")),
        "user": unquote(parts.username or asked["user"]),
        "password": unquote(parts.password or asked.get("password", "")),
    }
    return " ".join(f"{name}={value}" for name, value in words.items() if value)


def require() -> None:
    """Skip where PgBouncer is missing; in CI that is a failure."""
    if program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)


@pytest.fixture(scope="session")
def pgbouncer(server_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PgBouncer]:
    """One for all tests of this process, which must leave it running."""
    require()
    bouncer = PgBouncer(server_dsn, tmp_path_factory.mktemp("pgbouncer"))
    bouncer.start()
    yield bouncer
    bouncer.kill()


@pytest.fixture
def database_dsn(database_dsn: str, pgbouncer: PgBouncer) -> str:
    return pgbouncer.to(database_dsn)


@pytest.fixture
def direct_dsn(database_dsn: str, server_dsn: str) -> str:
    """The same database, past PgBouncer."""
    return on_database(server_dsn, urlsplit(database_dsn).path.strip("/"))


@pytest.fixture
async def connection(direct_dsn: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    opened = await connected(direct_dsn)
    yield opened
    await opened.close()
