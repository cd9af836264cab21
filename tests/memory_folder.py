"""A folder in memory for the files of a test run: those of servers, most of all.

A new server is some 1 000 files, and each database of it 800 more. To make and remove them on a
disk costs a processor several times as much, and what is committed need not wait for one.
"""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_OWNED_BY = "gnomon-"  # then the id of the process; sockets lie deep below it, so it is short
_ROOM = 8 * 2**30  # bytes that must be free in it; the files of a run take some 3 GB together


def make() -> Path | None:
    """A folder that this process has for itself, and others can reach; or none where memory is
    small, or programs could not be run from it."""
    if not _MEMORY.is_dir() or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return None
    for left in _MEMORY.glob(f"{_OWNED_BY}*"):  # by runs that were killed
        owner = left.name.removeprefix(_OWNED_BY).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():  # others have their own names
            shutil.rmtree(left, ignore_errors=True)
    if shutil.disk_usage(_MEMORY).free < _ROOM:
        return None
    folder = Path(tempfile.mkdtemp(prefix=f"{_OWNED_BY}{os.getpid()}-", dir=_MEMORY))
    folder.chmod(0o755)
    return folder


def use(folder: Path) -> None:
    """Have this process and those that it starts make their temporary files in it."""
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
