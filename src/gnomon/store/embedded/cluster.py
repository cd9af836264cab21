"""Makes the files of a new server.

Everything is made in `postgres.new` and renamed when it is whole and on the disk. So `postgres`
exists complete or not at all, and a crash in between costs nothing but a second try.
"""

import os
import shutil
from pathlib import Path

from gnomon.store.embedded import roles
from gnomon.store.embedded.binaries import MAJOR_VERSION, Binaries
from gnomon.store.embedded.errors import EmbeddedError
from gnomon.store.embedded.identity import Identity


def ensure(
    cluster: Path,
    binaries: Binaries,
    identity: Identity,
    *,
    passwords: roles.Passwords,
    durable: bool,
) -> None:
    """Make the cluster, unless it exists."""
    if not cluster.exists():
        _create(cluster, binaries, identity, passwords=passwords, durable=durable)
        return
    version = cluster / "PG_VERSION"
    found = version.read_text().strip() if version.exists() else None
    if found != MAJOR_VERSION:
        holds = f"was made by PostgreSQL {found}" if found else "is not a PostgreSQL data directory"
        raise EmbeddedError(
            f"{cluster} {holds}; this Gnomon runs PostgreSQL {MAJOR_VERSION}. Move it away, or "
            "give Gnomon another data directory (GNOMON_DATABASE_DATA_DIR)"
        )
    if identity.drop and cluster.stat().st_uid != identity.uid:
        # Made by root in a namespace, on a system that has refused namespaces since.
        identity.own_tree(cluster)


def _create(
    cluster: Path,
    binaries: Binaries,
    identity: Identity,
    *,
    passwords: roles.Passwords,
    durable: bool,
) -> None:
    new = cluster.with_name(f"{cluster.name}.new")
    shutil.rmtree(new, ignore_errors=True)  # of an earlier try that was cut short
    new.mkdir(mode=0o700)
    identity.own(new)
    initdb = (binaries.initdb, "--pgdata", new)
    identity.run(
        *initdb,
        f"--username={roles.SUPERUSER}",
        "--encoding=UTF8",
        "--locale=C",
        "--auth-local=trust",
        "--auth-host=scram-sha-256",
        "--no-instructions",
        "--no-sync",  # once, at the end
    )
    roles.make(new, binaries, identity, passwords, new=True)
    if durable:
        identity.run(*initdb, "--sync-only")
    new.rename(cluster)
    if durable:
        _sync_folder(cluster.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
