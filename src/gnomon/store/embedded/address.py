"""The address of the server: a Unix socket in a folder of ours, or loopback without sockets.

The folder is closed to other users, which is the whole of the authentication on it. Loopback is
open to every user of the machine, so there it takes a password.
"""

import contextlib
import os
import secrets
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gnomon.store.embedded.identity import Identity
from gnomon.store.embedded.roles import DATABASE, SUPERUSER, USER, Passwords

PORT = 5432  # on a Unix socket: no more than a part of the file's name
LONGEST_SOCKET_PATH = 103  # bytes; macOS's limit, Linux has 107
REMEMBERED = "socket-folder"
PASSWORD = "postgres-password"  # noqa: S105 - the name of the file
SUPERUSER_PASSWORD = "postgres-superuser-password"  # noqa: S105 - likewise


@dataclass(frozen=True)
class ServerAddress:
    """The address that one server listens at."""

    folder: Path | None  # None: loopback
    passwords: Passwords
    port: int = PORT

    @property
    def settings(self) -> dict[str, str]:
        return {
            "listen_addresses": "" if self.folder else "127.0.0.1",
            "unix_socket_directories": str(self.folder or ""),
            "unix_socket_permissions": "0700",
            "port": str(self.port),
        }

    @property
    def dsn(self) -> str:
        return self._dsn(USER, self.passwords.user)

    @property
    def superuser_dsn(self) -> str:
        return self._dsn(SUPERUSER, self.passwords.superuser)

    def _dsn(self, user: str, password: str) -> str:
        if self.folder is None:
            return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{DATABASE}"
        return f"postgresql:///{DATABASE}?host={quote(str(self.folder))}&port={PORT}&user={user}"


def choose(data_dir: Path, identity: Identity, *, sockets: bool = True) -> ServerAddress:
    """Choose an address that clients on this machine can use."""
    if sockets:
        own = data_dir / "run"
        if _fits(own):
            _make_private(own, identity)
            if _can_listen(own):
                return ServerAddress(own, passwords(data_dir))
        short = _short_folder(data_dir, identity)
        if short is not None:
            return ServerAddress(short, passwords(data_dir))
    return ServerAddress(None, passwords(data_dir), _free_port())


def passwords(data_dir: Path) -> Passwords:
    """Passwords of the server's roles, generated on first use."""
    return Passwords(_password(data_dir / PASSWORD), _password(data_dir / SUPERUSER_PASSWORD))


def _password(file: Path) -> str:
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as new:
            new.write(secrets.token_urlsafe(24))
    return file.read_text()


def forget_short_folder(data_dir: Path) -> None:
    """Remove the folder in the temp directory after a clean stop."""
    remembered = data_dir / REMEMBERED
    with contextlib.suppress(OSError):
        Path(remembered.read_text()).rmdir()
        remembered.unlink()


def _short_folder(data_dir: Path, identity: Identity) -> Path | None:
    remembered = data_dir / REMEMBERED
    with contextlib.suppress(OSError):
        folder = Path(remembered.read_text())
        facts = folder.lstat()
        # The temp directory belongs to everyone: somebody else may sit at that name by now.
        if (facts.st_uid, facts.st_mode) == (identity.uid, 0o40700) and _can_listen(folder):
            return folder
    for parent in dict.fromkeys((Path(tempfile.gettempdir()), Path("/tmp"))):  # noqa: S108
        if not _fits(parent / "gnomon-12345678") or identity.blocked_at(parent) is not None:
            continue
        folder = Path(tempfile.mkdtemp(prefix="gnomon-", dir=parent))  # mode 0700
        identity.own(folder)
        if _can_listen(folder):
            remembered.write_text(str(folder))
            return folder
        folder.rmdir()
    return None


def _make_private(folder: Path, identity: Identity) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    identity.own(folder)


def _fits(folder: Path) -> bool:
    # A comma separates addresses, for the server and for its clients, and a quote quotes them.
    name = str(folder)
    path = os.fsencode(folder / f".s.PGSQL.{PORT}")
    return len(path) <= LONGEST_SOCKET_PATH and not set(name) & set(',"')


def _can_listen(folder: Path) -> bool:
    """Some file systems (shared folders of virtual machines, say) have no sockets."""
    path = folder / ".probe"
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            path.unlink(missing_ok=True)
            probe.bind(str(path))
            path.unlink()
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
