"""Database roles of applications, and the tenants that they submit for by gnomon.submit."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from gnomon.model.errors import RoleNotFound, StatementRefused, TenantNotFound
from gnomon.model.fleet.tenant import Quotas
from gnomon.store.postgres.database import Database

_NO_ROLE, _NO_TENANT = "42704", "23503"


class RoleGrant(NamedTuple):
    """A role, its tenant, and what it is held to. None: everything that the tenant may."""

    role: str
    tenant_id: str
    task_types: Sequence[str] | None
    functions: Sequence[str] | None
    hosts: Sequence[str] | None
    created_at: datetime


class PostgresRoleGrants:
    """Grants to database roles. The database must be used as the owner of the schema."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def grant(
        self,
        role: str,
        tenant_id: str,
        task_types: Sequence[str] | None,
        functions: Sequence[str] | None,
        hosts: Sequence[str] | None,
    ) -> None:
        """Let the role submit for the tenant, and for no other. Raises RoleNotFound and
        TenantNotFound."""
        try:
            await self._database.fetchrow(
                "grant_role", role, tenant_id, task_types, functions, hosts
            )
        except StatementRefused as error:
            if error.sqlstate == _NO_ROLE:
                raise RoleNotFound(role) from error
            if error.sqlstate == _NO_TENANT:
                raise TenantNotFound(tenant_id) from error
            raise

    async def revoke(self, role: str) -> bool:
        """Returns whether it had a grant."""
        row = await self._database.fetchrow("revoke_role", role)
        return row is not None and bool(row["revoked"])

    async def list(self) -> list[RoleGrant]:
        return [RoleGrant(*row) for row in await self._database.fetch("list_role_grants")]


async def tell_rules(
    database: Database, plans: Mapping[str, Quotas], payload_bytes: int, key_seconds: float
) -> None:
    """Write down what this process holds submissions to, so that gnomon.submit does the same."""
    text = msgspec.json.encode(plans).decode()
    await database.execute("tell_rules", text, payload_bytes, key_seconds)
