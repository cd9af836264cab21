"""The operating-system user that the server runs as.

PostgreSQL refuses to run as root. Root therefore runs it in a user namespace of its own, in
which root is called `nobody`: to every file it is still root, without root's powers. Where
namespaces are refused it runs as the real `nobody`, if that user can reach the folder. The
permissions of folders that are not ours are never changed to make one of these work.
"""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.store.embedded.errors import EmbeddedError

ORDINARY_USER = "nobody"
NAMESPACE = ("unshare", "--user", "--map-user=65534", "--map-group=65534")

# Prints the first folder that cannot be entered. Asking as the user in question is the only
# answer that includes access lists, read-only mounts and security modules.
_PROBE = 'for f; do test -x "$f" || { printf %s "$f"; exit 3; }; done'
_BLOCKED = 3


class RefusedError(Exception):
    """This system does not allow running as this identity."""


@dataclass(frozen=True)
class Identity:
    """A way to run a command as a user that PostgreSQL accepts."""

    description: str
    uid: int  # owner of the files it makes, as we see it
    gid: int
    prefix: tuple[str, ...] = ()
    drop: bool = False  # change to uid and gid in the child

    def command(self, *argv: str | Path) -> list[str]:
        return [*self.prefix, *map(str, argv)]

    def popen_options(self) -> dict[str, Any]:
        """Options for subprocess: the user, a folder it can enter, and no settings of ours."""
        options: dict[str, Any] = {
            "cwd": "/",
            # PGPORT, PGDATA, LC_ALL and the like of the user's shell are for other servers.
            "env": {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
        }
        if self.drop:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def run(self, *argv: str | Path, text: str = "") -> None:
        """Run one of PostgreSQL's programs to its end, with `text` on its standard input."""
        done = subprocess.run(  # noqa: S603 - our own programs
            self.command(*argv),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            **self.popen_options(),
        )
        # A single-user server reports a failed statement and goes on to the next.
        if done.returncode != 0 or any(word in done.stderr for word in ("ERROR:", "FATAL:")):
            raise EmbeddedError(
                f"PostgreSQL's {Path(argv[0]).name} failed as {self.description}: "
                f"{done.stderr.strip()}"
            )

    def blocked_at(self, folder: Path) -> Path | None:
        """The outermost folder on the way that this identity cannot enter."""
        way = [*reversed(folder.parents), folder]
        try:
            probe = subprocess.run(  # noqa: S603 - our own script
                self.command("/bin/sh", "-c", _PROBE, "sh", *way),
                capture_output=True,
                check=False,
                **self.popen_options(),
            )
        except OSError as error:
            raise RefusedError(str(error)) from error
        if probe.returncode == _BLOCKED:
            return Path(os.fsdecode(probe.stdout))
        if probe.returncode != 0:
            raise RefusedError(os.fsdecode(probe.stderr).strip())
        return None

    def own(self, path: Path) -> None:
        """Give a file or folder of ours to this identity."""
        if self.drop:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def own_tree(self, folder: Path) -> None:
        self.own(folder)
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                self.own(Path(parent, name))


def choose(data_dir: Path, cluster: Path, *, created: bool, namespaces: bool = True) -> Identity:
    """Who runs the server whose files are, or will be, in `cluster`.

    `created` says that the data directory was made just now, and so is ours to open to the group
    of an ordinary user.
    """
    owner = cluster.stat().st_uid if cluster.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise EmbeddedError(
                f"{cluster} belongs to user {_name(owner)}: run Gnomon as that user, "
                "or give it another data directory (GNOMON_DATABASE_DATA_DIR)"
            )
        return Identity("this user", os.geteuid(), os.getegid())
    if owner:  # made by an ordinary user, and it must stay theirs
        candidates = [_user(owner)]
    else:
        candidates = [namespace_of_root()] if namespaces and shutil.which(NAMESPACE[0]) else []
        candidates += _ordinary()
    return _first_that_reaches(data_dir, candidates, created=created)


def namespace_of_root() -> Identity:
    return Identity("root in a user namespace", 0, 0, prefix=NAMESPACE)


def _first_that_reaches(data_dir: Path, candidates: list[Identity], *, created: bool) -> Identity:
    reasons: list[str] = []
    for identity in candidates:
        if created and identity.drop:
            os.chown(data_dir, -1, identity.gid)
            data_dir.chmod(0o710)
        try:
            blocked = identity.blocked_at(data_dir)
        except RefusedError as error:
            reasons.append(f"{identity.description} is refused by this system ({error})")
            continue
        if blocked is None:
            return identity
        reasons.append(f"{identity.description} cannot enter {blocked}")
    raise EmbeddedError(
        f"PostgreSQL does not run as root, and cannot be run as another user in {data_dir}: "
        f"{'; '.join(reasons) or 'there is no other user'}. Run Gnomon as an ordinary user, or "
        "set GNOMON_DATABASE_DATA_DIR to a folder that every user can reach (/var/lib/gnomon)"
    )


def _ordinary() -> list[Identity]:
    try:
        return [_user(pwd.getpwnam(ORDINARY_USER).pw_uid)]
    except KeyError:
        return []


def _user(uid: int) -> Identity:
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        gid = uid
    return Identity(f"user {_name(uid)}", uid, gid, drop=True)


def _name(uid: int | None) -> str:
    try:
        return pwd.getpwuid(uid or 0).pw_name
    except KeyError:
        return str(uid)
