"""Database roles of applications: they may submit for a tenant, and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from tests.integration.support import Connection


def as_role(dsn: str, role: str) -> str:
    """The same database, by the login of this role."""
    return dsn.replace("user=gnomon", f"user={role}")


@asynccontextmanager
async def login_role(superuser: Connection) -> AsyncIterator[str]:
    """A role that may log in, and is gone afterwards."""
    role = f"app_{uuid4().hex[:12]}"
    await superuser.execute(f"CREATE ROLE {role} LOGIN")
    try:
        yield role
    finally:
        await superuser.execute(f"DROP OWNED BY {role} CASCADE")
        await superuser.execute(f"DROP ROLE {role}")


async def grant(connection: Connection, role: str, tenant: str = "default", **limits: Any) -> None:
    """As the owner of the schema, who need not be a superuser."""
    await connection.execute(
        "SELECT gnomon.grant_role($1::text::name, $2, $3, $4, $5)",
        role,
        tenant,
        limits.get("task_types"),
        limits.get("functions"),
        limits.get("hosts"),
    )
