"""Check of the encryption between here and PostgreSQL."""

from typing import TYPE_CHECKING

from gnomon.cli.admin.checks.check import Check

if TYPE_CHECKING:
    import asyncpg

    from gnomon.store.postgres.encryption import Protection

_REMEDY = "add sslmode=verify-full and sslrootcert=FILE to the query of {variable}"


def encryption(
    connection: "asyncpg.Connection[asyncpg.Record]", variable: str = "DATABASE_URL"
) -> Check:
    """Whether others on the network could read the connection, or pose as the server."""
    from gnomon.store.postgres.encryption import protection_of

    found = protection_of(connection)
    good = found.local or (found.protocol is not None and found.certificate_checked)
    return Check("encryption", good, _told(found), _REMEDY.format(variable=variable))


def _told(found: "Protection") -> str:
    where = "a Unix socket" if found.address is None else found.address
    if found.protocol is None:
        how = "not needed on this machine" if found.local else "none: all on the way can be read"
        return f"{how} ({where})"
    if not found.certificate_checked:
        return f"{found.protocol} with {where}, but its certificate is not checked"
    name = "certificate and name" if found.name_checked else "certificate, not the name in it,"
    return f"{found.protocol} with {where}, {name} checked"
