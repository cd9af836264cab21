"""Roles of the embedded server: one that owns Gnomon's database, and a superuser beside it.

Gnomon works as `gnomon`, which can neither run programs nor read files of the server, nor see
the passwords of roles. `gnomon_superuser` is for making that role, and for whoever tends the
server by hand. Both are made by a single-user server, before anybody can connect.
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gnomon.store.embedded.binaries import Binaries
from gnomon.store.embedded.identity import Identity

DATABASE = "gnomon"
USER = "gnomon"
SUPERUSER = "gnomon_superuser"
# In the cluster, so that a cluster that is put back from an older copy is looked at again.
_MADE = "gnomon.roles"
# Every table with all its indexes is locked at once, and there are hundreds of partitions.
_OPTIONS = (
    *("-j", "-c", "log_min_messages=warning", "-c", "max_locks_per_transaction=4096"),
    *("-c", "log_min_error_statement=panic"),  # there are passwords in them
)


@dataclass(frozen=True)
class Passwords:
    """Passwords for loopback; a socket in a folder closed to others needs none."""

    user: str
    superuser: str


def made(cluster: Path) -> bool:
    """Whether this cluster has the roles. One of an earlier Gnomon has only a superuser."""
    return (cluster / _MADE).exists()


def make(
    cluster: Path, binaries: Binaries, identity: Identity, passwords: Passwords, *, new: bool
) -> None:
    """Make them, and the database or, where there is one, the role `gnomon` the owner of all that
    is in it. The server must be down. A second time does no harm.
    """
    single_user = (binaries.postgres, "--single", "-D", cluster, *_OPTIONS)
    statements = [
        _file("roles.sql"),
        f"ALTER ROLE {USER} PASSWORD '{passwords.user}';",
        f"ALTER ROLE {SUPERUSER} PASSWORD '{passwords.superuser}';",
    ]
    if new:
        statements.append(f"CREATE DATABASE {DATABASE} OWNER {USER};")
        identity.run(*single_user, "-F", "postgres", text=_script(statements))
    else:
        statements.append(f"ALTER DATABASE {DATABASE} OWNER TO {USER};")
        identity.run(*single_user, "postgres", text=_script(statements))
        identity.run(*single_user, DATABASE, text=_script([_file("ownership.sql")]))
    marker = cluster / _MADE
    marker.touch(mode=0o600)
    identity.own(marker)


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _script(statements: list[str]) -> str:
    """With `-j`, a semicolon and an empty line end a statement, and nothing else does."""
    return "".join(f"{statement.strip()}\n\n" for statement in statements)
