"""What `postmaster.pid` says, and whether it is true.

The file outlives its server after a crash, and the process id in it may be another program's by
then. It is believed only if that process is a PostgreSQL in this very folder.
"""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from gnomon.clock import SystemClock

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class PidFile:
    """The lines of postmaster.pid that matter here."""

    pid: int
    ready: bool


def read(cluster: Path) -> PidFile | None:
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        # The eighth line is the state; the server adds it last.
        return PidFile(abs(int(lines[0])), len(lines) > 7 and lines[7].strip() == "ready")
    except (FileNotFoundError, IndexError, ValueError):
        return None  # not there, or just being written


def running(cluster: Path) -> int | None:
    """The process id of the server that runs in this folder."""
    file = read(cluster)
    return file.pid if file and _is_server(file.pid, cluster) else None


def clear_stale(cluster: Path, socket_folder: Path | None) -> None:
    """Remove lock files that name a process which lives but is not this server.

    PostgreSQL removes those of dead processes itself; where the id was given to another program
    it would refuse to start.
    """
    files = [cluster / "postmaster.pid"]
    if socket_folder is not None:
        files += socket_folder.glob(".s.PGSQL.*.lock")
    for file in files:
        try:
            pid = abs(int(file.read_text().split(maxsplit=1)[0]))
        except FileNotFoundError:
            continue
        except (IndexError, ValueError):
            file.unlink()  # cut short by a crash; PostgreSQL would ask for this by hand
            continue
        if _alive(pid) and not _is_server(pid, cluster):
            file.unlink()


def stop(pid: int, sent: signal.Signals, *, seconds: float) -> bool:
    """Signal a server that is not our child, and wait for its end. False: it still runs."""
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    never = threading.Event()
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        return True
    while _alive(pid):
        if clock.monotonic() > deadline:
            return False
        never.wait(_POLL_SECONDS)
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Ended, and not yet collected by whoever inherited it (a container's init may never)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "Z"


def _is_server(pid: int, cluster: Path) -> bool:
    if sys.platform == "linux":
        process = Path(f"/proc/{pid}")
        try:
            name = (process / "comm").read_text().strip()
            return name == "postgres" and (process / "cwd").samefile(cluster)
        except OSError:
            return False
    ps = subprocess.run(  # noqa: S603 - a number is all that varies
        ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return "postgres" in ps.stdout and str(cluster) in ps.stdout
