"""A folder in memory for the files of a test run: those of servers, most of all.

A new server is some 1 000 files, and each database of it 800 more. To make and remove them on a
disk costs a processor several times as much, and what is committed need not wait for one.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_OWNED_BY = "gnomon-"  # then the id of the process; sockets lie deep below it, so it is short
_LOCK = ".in-use"  # held by its owner: ids of processes mean nothing between containers
_ROOM = 8 * 2**30  # bytes that must be free in it; the files of a run take some 3 GB together


def make() -> Path | None:
    """A folder that this process has for itself, and others can reach; or none where memory is
    small, or programs could not be run from it."""
    if not _MEMORY.is_dir() or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return None
    for left in _MEMORY.glob(f"{_OWNED_BY}*"):
        _remove_if_unused(left)
    if shutil.disk_usage(_MEMORY).free < _ROOM:
        return None
    name = f"{_OWNED_BY}{os.getpid()}-"
    folder = Path(tempfile.mkdtemp(prefix=f".{name}", dir=_MEMORY))  # not found by others
    folder.chmod(0o755)
    _locked(folder, os.O_CREAT)  # until this process ends
    return folder.rename(_MEMORY / folder.name.removeprefix("."))


def _remove_if_unused(folder: Path) -> None:
    """Remove what a run has left that was killed. Others have folders with such names, too."""
    with contextlib.suppress(OSError):  # it has no lock, or it is held
        lock = _locked(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path, flags: int = 0) -> int:
    """Its lock. Raises OSError where another holds it."""
    lock = os.open(folder / _LOCK, os.O_RDWR | flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def use(folder: Path) -> None:
    """Have this process and those that it starts make their temporary files in it."""
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
