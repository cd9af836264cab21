"""Reads `postmaster.pid`, and finds out whether it is true.

The file outlives its server after a crash, and the process id in it may be another program's by
then. It is believed only if that process is a PostgreSQL in this very folder.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from gnomon.clock import SystemClock
from gnomon.store.embedded.errors import EmbeddedError

FAST_SECONDS = 60.0  # a fast stop writes out what is dirty
QUIT_SECONDS = 10.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class PidFile:
    """The fields of postmaster.pid that matter here."""

    pid: int
    ready: bool


def read(cluster: Path) -> PidFile | None:
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        # The eighth line is the state; the server adds it last.
        return PidFile(abs(int(lines[0])), len(lines) > 7 and lines[7].strip() == "ready")
    except (FileNotFoundError, IndexError, ValueError):
        return None  # not there, or just being written


def evict(cluster: Path, socket_folder: Path | None) -> None:
    """Stop the server that a killed owner left in this folder, and remove what is left of it."""
    file = read(cluster)
    if file is None and not (cluster / "postmaster.pid").exists():
        return
    if file is not None and _is_server(file.pid, cluster):
        with contextlib.suppress(ProcessLookupError):
            os.kill(file.pid, signal.SIGINT)
        _wait_until_empty(cluster, FAST_SECONDS)
    # The processes of a server that was itself killed end when they notice, and a busy one does
    # not notice. SIGQUIT is what the server would have sent them.
    for sent in (signal.SIGQUIT, signal.SIGKILL):
        for pid in _processes(cluster):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
        if _wait_until_empty(cluster, QUIT_SECONDS):
            break
    else:
        raise EmbeddedError(
            f"{cluster} is in use by a PostgreSQL that does not stop: "
            f"process {', '.join(map(str, _processes(cluster)))}"
        )
    _remove_stale(cluster, socket_folder)


def _remove_stale(cluster: Path, socket_folder: Path | None) -> None:
    """Remove lock files that PostgreSQL would believe.

    It removes those of processes that are gone, but refuses to start where the process id was
    given to another program, or is kept by an init that does not collect its dead.
    """
    files = [cluster / "postmaster.pid"]
    if socket_folder is not None:
        files += socket_folder.glob(".s.PGSQL.*.lock")
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            try:
                pid = abs(int(file.read_text().split(maxsplit=1)[0]))
            except (IndexError, ValueError):
                file.unlink()  # cut short by a crash; PostgreSQL would ask for this by hand
                continue
            if _exists(pid):
                file.unlink()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _wait_until_empty(cluster: Path, seconds: float) -> bool:
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    never = threading.Event()
    while _processes(cluster):
        if clock.monotonic() > deadline:
            return False
        never.wait(_POLL_SECONDS)
    return True


def _processes(cluster: Path) -> list[int]:
    """The server and its helpers that run in this folder, whoever started them."""
    if sys.platform == "linux":
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    else:
        file = read(cluster)  # PostgreSQL itself looks out for the helpers
        pids = [file.pid] if file else []
    return [pid for pid in pids if _is_server(pid, cluster)]


def _is_server(pid: int, cluster: Path) -> bool:
    if sys.platform == "linux":
        return _is_server_on_linux(Path(f"/proc/{pid}"), cluster)
    ps = subprocess.run(  # noqa: S603 - a number is all that varies
        ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return "postgres" in ps.stdout and str(cluster) in ps.stdout


def _is_server_on_linux(process: Path, cluster: Path) -> bool:
    try:
        if (process / "comm").read_text().strip() != "postgres":
            return False
        try:
            return (process / "cwd").samefile(cluster)  # also after the folder was renamed
        except PermissionError:
            # Root in a container may not look into another user's process. Its command line is
            # there for all to see, though only the server's own names the folder.
            return os.fsencode(cluster) in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile
        return False
