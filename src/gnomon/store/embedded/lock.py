"""Ownership of a data directory: by the process that holds the lock on its `lock` file.

The kernel drops the lock when the process ends, however it ends, so there is no stale lock to
clean up. The process id inside is there only to be shown to the next process that wants it.
"""

import fcntl
import os
from pathlib import Path

from gnomon.store.embedded.errors import EmbeddedError


class DirectoryLock:
    """The lock that makes this process the owner of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._file = data_dir / "lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        # Python opens files close-on-exec: PostgreSQL must not inherit the lock, or it would
        # keep a dead owner's directory taken.
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise EmbeddedError(f"{self._file} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise EmbeddedError(
                f"{self._data_dir} is already in use by process {owner or '(just starting)'}: "
                "stop that one first, or give this one another data directory "
                "(GNOMON_DATABASE_DATA_DIR)"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise EmbeddedError(f"{self._file} cannot be locked: {error.strerror}") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        # The file stays: unlinking it would let two processes lock two files of the same name.
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
