"""The embedded PostgreSQL: one server, owned by one process, in one data directory.

The server outlives an owner that is killed, and whoever takes the directory next stops it cleanly
and starts its own. It is not adopted: a fresh start costs well under a second, frees what the
dead owner's connections held, and leaves a server that runs the settings asked for.
"""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from gnomon.clock import SystemClock
from gnomon.store.embedded import address as addresses
from gnomon.store.embedded import binaries as programs
from gnomon.store.embedded import cluster as clusters
from gnomon.store.embedded import identity as identities
from gnomon.store.embedded import postmaster, roles
from gnomon.store.embedded.errors import EmbeddedError
from gnomon.store.embedded.lock import DirectoryLock
from gnomon.store.embedded.tuning import SETTINGS

START_SECONDS = 300.0  # replaying the log after a crash takes as long as it takes
IMMEDIATE_SECONDS = 10.0
ORPHANS_SECONDS = 20.0  # for the last processes of a killed server to notice
LOG_BYTES = 8 * 1024 * 1024
DSN_FILE = "postgres.dsn"

_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


class EmbeddedServer:
    """A PostgreSQL of our own. Blocking: it is started before there is a loop, and stopped after.

    `namespaces` and `sockets` set to False do without what this system may refuse.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings_overrides: Mapping[str, str] = _NO_OVERRIDES,
        namespaces: bool = True,
        sockets: bool = True,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.cluster = self.data_dir / "postgres"
        self.log = self.data_dir / "postgres.log"
        self._settings = SETTINGS | dict(settings_overrides)
        self._namespaces = namespaces
        self._sockets = sockets
        self._lock = DirectoryLock(self.data_dir)
        self._address: addresses.ServerAddress | None = None
        self._command: list[str] = []
        self._identity: identities.Identity | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        if self._address is None:
            raise EmbeddedError(f"the server in {self.data_dir} is not started")
        return self._address.dsn

    @property
    def superuser_dsn(self) -> str:
        """The DSN for administering the server by hand. Gnomon itself never connects with it."""
        if self._address is None:
            raise EmbeddedError(f"the server in {self.data_dir} is not started")
        return self._address.superuser_dsn

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EmbeddedError(f"the server in {self.data_dir} is not started")
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> str:
        """Own the data directory and run its server. Returns the DSN."""
        created = self._make_data_dir()
        self._lock.acquire()
        try:
            self._prepare(created=created)
            self._launch()
            _write_private(self.data_dir / DSN_FILE, self.dsn)
        except BaseException:
            self.stop(mode="immediate")
            raise
        return self.dsn

    def stop(self, *, mode: str = "fast") -> None:
        """Stop the server and release the data directory. Does nothing the second time."""
        try:
            self._halt(mode)
            if self._address is not None:
                (self.data_dir / DSN_FILE).unlink(missing_ok=True)
                addresses.forget_short_folder(self.data_dir)
                self._address = None
        finally:
            self._lock.release()

    def restart(self, *, mode: str = "fast") -> None:
        """Stop and start on the same data, at the same address, without giving up ownership."""
        self._halt(mode)
        self._launch()

    def tend(self) -> None:
        """Start the server again if it died, and keep its log within bounds. Call it often."""
        if self._process is not None and self._process.poll() is not None:
            self._launch()
        self._trim_log()

    def _make_data_dir(self) -> bool:
        try:
            self.data_dir.parent.mkdir(parents=True, exist_ok=True)
            self.data_dir.mkdir(mode=0o700)
        except FileExistsError:
            return False
        except OSError as error:
            raise EmbeddedError(f"{self.data_dir} cannot be made: {error.strerror}") from error
        return True

    def _prepare(self, *, created: bool) -> None:
        identity = identities.choose(
            self.data_dir, self.cluster, created=created, namespaces=self._namespaces
        )
        binaries = programs.reachable(identity, self.data_dir)
        passwords = addresses.passwords(self.data_dir)
        durable = self._settings["fsync"] == "on"
        clusters.ensure(self.cluster, binaries, identity, passwords=passwords, durable=durable)
        self._address = addresses.choose(self.data_dir, identity, sockets=self._sockets)
        if not roles.made(self.cluster):
            self._patiently(lambda: self._adopt(binaries, identity, passwords))
        settings = self._settings | self._address.settings
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        self._identity = identity
        self._command = identity.command(binaries.postgres, "-D", self.cluster, *options)

    def _adopt(
        self, binaries: programs.Binaries, identity: identities.Identity, passwords: roles.Passwords
    ) -> str | None:
        """Give a cluster of an earlier Gnomon its roles. Returns the reason if that fails."""
        assert self._address is not None
        postmaster.evict(self.cluster, self._address.folder)
        try:
            roles.make(self.cluster, binaries, identity, passwords, new=False)
        except EmbeddedError as error:
            return str(error)
        return None

    def _launch(self) -> None:
        self._patiently(self._launch_once)

    def _patiently(self, attempt: Callable[[], str | None]) -> None:
        clock = SystemClock()
        deadline = clock.monotonic() + ORPHANS_SECONDS
        while (problem := attempt()) is not None:
            # After a kill -9 of the server, its last processes still hold its shared memory
            # until they notice.
            if "shared memory block" not in problem or clock.monotonic() > deadline:
                raise EmbeddedError(
                    f"PostgreSQL did not start in {self.cluster}: {problem} (see {self.log})"
                )
            threading.Event().wait(0.1)

    def _launch_once(self) -> str | None:
        """Run the server until it is ready. Returns what it complained about, if it ended."""
        assert self._identity is not None
        assert self._address is not None
        postmaster.evict(self.cluster, self._address.folder)
        clock = SystemClock()
        deadline = clock.monotonic() + START_SECONDS
        with self.log.open("ab") as log:
            self.log.chmod(0o600)
            before = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for us, not for the server
                **self._identity.popen_options(),
            )
        while clock.monotonic() < deadline:
            file = postmaster.read(self.cluster)
            if file is not None and file.ready and file.pid == self._process.pid:
                return None
            try:
                self._process.wait(timeout=0.01)
            except subprocess.TimeoutExpired:
                continue
            self._process = None
            return _complaints(self.log, before)
        self._halt("immediate")
        return f"it was not ready after {START_SECONDS:.0f} s"

    def _halt(self, mode: str) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        steps = [(_SIGNALS[mode], postmaster.FAST_SECONDS), (signal.SIGQUIT, IMMEDIATE_SECONDS)]
        for sent, seconds in steps:
            process.send_signal(sent)
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                continue
            return
        process.kill()
        process.wait()

    def _trim_log(self) -> None:
        # The server appends, so the file can be cut while it writes.
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            shutil.copy(self.log, self.log.with_suffix(".log.1"))
            os.truncate(self.log, 0)


def running_dsn(data_dir: Path) -> str | None:
    """The DSN of the server that some process runs in this data directory."""
    try:
        return (data_dir / DSN_FILE).read_text().strip()
    except OSError:
        return None


def _write_private(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as new:
        new.write(f"{text}\n")


def _complaints(log: Path, since: int) -> str:
    with log.open("rb") as file:
        file.seek(since)
        lines = file.read()[-2000:].decode(errors="replace").splitlines()
    worst = [line for line in lines if "FATAL:" in line or "PANIC:" in line]
    return " / ".join(worst or lines[-3:]) or "it ended without a word"
