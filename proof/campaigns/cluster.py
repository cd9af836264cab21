"""A PostgreSQL that may be stopped, killed, filled up and failed over, from the wheel's programs.

Durable as in real life: fsync is on. It listens on a loopback port that stays its own while it is
down, and it dies with the process that started it.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

import asyncpg
from proof.campaigns.tools import NotPermitted
from tests.waiting import eventually

from gnomon.store.embedded import address, binaries, cluster, identity, postmaster, roles
from gnomon.store.embedded.tuning import SETTINGS

_OURS = {
    "shared_buffers": "64MB",
    "max_connections": "200",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}
_NONE: Mapping[str, str] = MappingProxyType({})
_PATIENCE = 60.0  # seconds for a start or a stop
# An immediate shutdown when whoever started it has died. Only Linux can do that.
_DIES_WITH_US = ("setpriv", "--pdeathsig", "QUIT") if shutil.which("setpriv") else ()
HANDLER = "proof_handler"


class ServerEnded(Exception):
    """It did not come up; the message is the end of its log."""


def reserve_port() -> socket.socket:
    """A loopback port that nobody else is given while this socket is open, and that one who sets
    SO_REUSEADDR, as PostgreSQL and the API do, can listen on all the same."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


class Server:
    """One server in one folder. Start it from the main thread: its end is the server's."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = _NONE) -> None:
        self.folder = folder
        self.log = folder.with_name(f"{folder.name}.log")  # not where the disk gets full
        self._files = folder / "postgres"
        self._port = reserve_port()
        self._settings = SETTINGS | _OURS | {"port": str(self.port)} | dict(settings)
        self._command: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: identity.Identity | None = None

    @property
    def port(self) -> int:
        port: int = self._port.getsockname()[1]
        return port

    @property
    def dsn(self) -> str:
        """Straight to it."""
        return self.dsn_at(self.port)

    def dsn_at(self, port: int) -> str:
        """Its databases and roles, by way of another loopback port."""
        return f"postgresql://{self.credentials}@127.0.0.1:{port}/{roles.DATABASE}"

    def handler_dsn_at(self, port: int) -> str:
        """The same, as the role of transactional handlers."""
        return f"postgresql://{HANDLER}:{HANDLER}@127.0.0.1:{port}/{roles.DATABASE}"

    async def make_handler_role(self) -> None:
        """Make it, without any rights."""
        await self._execute(f"CREATE ROLE {HANDLER} LOGIN PASSWORD '{HANDLER}'")

    @property
    def credentials(self) -> str:
        return f"{roles.USER}:{address.passwords(self.folder).user}"

    @property
    def _superuser_dsn(self) -> str:
        who = f"{roles.SUPERUSER}:{address.passwords(self.folder).superuser}"
        return f"postgresql://{who}@127.0.0.1:{self.port}/{roles.DATABASE}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Run it until it is ready; makes its files the first time."""
        if self._identity is None:
            self._identity = await asyncio.to_thread(self._prepare)
        await asyncio.to_thread(postmaster.evict, self._files, None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._identity.popen_options(),
            )
        await eventually(self._ready, _PATIENCE)

    async def stop(self, *, immediate: bool = False) -> None:
        """As `pg_ctl stop` does: fast, or immediate, which is a crash as far as data goes."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            await eventually(self._ended, _PATIENCE)

    async def kill(self) -> None:
        """`kill -9` of the server and of all its processes."""
        if self._process is None or not self.alive:
            return
        for pid in (self._process.pid, *_children(self._process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await eventually(self._ended, _PATIENCE)

    async def close(self) -> None:
        """Stop it for good, without ado. The files stay."""
        await self.kill()
        self._port.close()

    async def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ServerEnded(self.log.read_text(errors="replace")[-2000:])
        file = postmaster.read(self._files)
        return file is not None and file.ready and file.pid == self._process.pid

    async def _ended(self) -> bool:
        return not self.alive

    def _prepare(self) -> identity.Identity:
        user = _identity(self.folder, self._files)
        programs = binaries.reachable(user, self.folder)
        passwords = address.passwords(self.folder)
        cluster.ensure(self._files, programs, user, passwords=passwords, durable=True)
        options = [part for item in self._settings.items() for part in ("-c", "=".join(item))]
        self._command = user.command(*_DIES_WITH_US, programs.postgres, "-D", self._files, *options)
        return user

    # Replicas

    async def make_replica(
        self, folder: Path, *, synchronous: bool, upstream: int | None = None
    ) -> "Server":
        """A started hot standby that streams from this server, by way of the port `upstream`.
        Synchronous: from now on a commit is acknowledged when the standby has it on its disk."""
        replica = Server(folder, self._own_settings())
        await asyncio.to_thread(self._copy_to, replica, upstream or self.port)
        await replica.start()
        await eventually(self._streams, _PATIENCE)
        if synchronous:
            await self._execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            await self._execute("SELECT pg_reload_conf()")
            await eventually(self._waits_for_standby, _PATIENCE)
        return replica

    async def promote(self) -> None:
        """Make a standby the one that is written to."""
        await self._execute("SELECT pg_promote(wait => true, wait_seconds => 60)")

    def _own_settings(self) -> dict[str, str]:
        return {name: value for name, value in self._settings.items() if name != "port"}

    def _copy_to(self, replica: "Server", upstream: int) -> None:
        replica.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in (address.PASSWORD, address.SUPERUSER_PASSWORD):
            shutil.copy(self.folder / name, replica.folder / name)
        user = _identity(replica.folder, replica._files)
        programs = binaries.reachable(user, replica.folder)
        copying = (programs.root / "bin" / "pg_basebackup", "-D", replica._files, "-X", "stream")
        _run(user, *copying, "-c", "fast", "-d", self._superuser_dsn)
        conninfo = (
            f"host=127.0.0.1 port={upstream} user={roles.SUPERUSER} "
            f"password={address.passwords(self.folder).superuser} application_name=replica"
        )
        with (replica._files / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{conninfo}'\n")
        standby = replica._files / "standby.signal"
        standby.touch(mode=0o600)
        user.own(standby)

    async def _streams(self) -> bool:
        found = await self._execute("SELECT state FROM pg_stat_replication")
        return found == "streaming"

    async def _waits_for_standby(self) -> bool:
        return bool(await self._execute("SELECT sync_state FROM pg_stat_replication") == "sync")

    async def _execute(self, statement: str) -> object:
        connection = await asyncpg.connect(self._superuser_dsn, timeout=_PATIENCE)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()


def _identity(folder: Path, files: Path) -> identity.Identity:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    created = not any(folder.iterdir())
    return identity.choose(folder, files, created=created)


def _run(user: identity.Identity, *argv: str | Path) -> None:
    done = subprocess.run(
        user.command(*argv), capture_output=True, text=True, check=False, **user.popen_options()
    )
    if done.returncode != 0:
        raise ServerEnded(f"{argv[0]}: {done.stderr.strip()}")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Tmpfs:
    """A small file system in memory on a folder, which can be filled up. PostgreSQL that recovers
    gives some space back, so whoever wants it full for a while fills it again and again."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self._size = megabytes
        self._filling = folder / "filling"

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = f"size={self._size}m,mode=0700"
        mount = ["mount", "-t", "tmpfs", "-o", options, "gnomon-proof", str(self.folder)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotPermitted(f"a tmpfs cannot be mounted: {done.stderr.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def fill(self) -> int:
        """Take all the space that is left; gives how many bytes that was."""
        block = bytes(1 << 20)
        with self._filling.open("ab", buffering=0) as filling:
            while block:
                try:
                    filling.write(block)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    block = block[: len(block) // 2]
        return self._filling.stat().st_size

    def free(self) -> None:
        self._filling.unlink(missing_ok=True)
