"""The address of the `gnomon up` of a folder, in a file of its data directory.

The process that wrote the file holds a lock on it for as long as it runs. The kernel drops the lock
however the process ends, so a file that nobody has locked was left behind, and is not believed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no embedded server, either
    fcntl = None  # type: ignore[assignment]

FILE = "api.url"
_MOST_BYTES = 1000


@contextmanager
def told(data_dir: Path, url: str) -> Iterator[None]:
    """Keeps the address in the data directory, readable by its owner alone."""
    if fcntl is None:
        yield
        return
    file, new = data_dir / FILE, data_dir / f"{FILE}.new"
    new.unlink(missing_ok=True)  # what a killed process left, or somebody else put there
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, url.encode())
        new.replace(file)  # locked and complete from the first moment
        try:
            yield
        finally:
            with suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), file.stat()):
                    file.unlink()
    finally:
        os.close(descriptor)


def found(data_dir: Path) -> str | None:
    """The address of the `gnomon up` that runs in this data directory; None: none does, or it is
    somebody else's."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(data_dir / FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        # One that another user has written, or could, might send the key anywhere.
        facts = os.fstat(descriptor)
        if facts.st_mode & 0o022 or facts.st_uid not in (0, os.geteuid()):
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, _MOST_BYTES).decode()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None
