"""Tenants and what is theirs, read from PostgreSQL: all of it, or of those that have changed."""

from collections import defaultdict
from collections.abc import Sequence

import asyncpg

from gnomon.model.limit import Limiter
from gnomon.model.tenant import Tenant, overrides_of
from gnomon.store.directory import Belongings, Changes
from gnomon.store.postgres.database import Database

_MOST_NAMED = 1_000  # tenants; where more have changed, all are read


class PostgresDirectory:
    """`DirectoryStore` on PostgreSQL. Only the API needs the schemas, which can be large."""

    def __init__(self, database: Database, *, with_schemas: bool) -> None:
        self._database = database
        self._with_schemas = with_schemas

    async def revision(self) -> int:
        row = await self._database.fetchrow("revision")
        assert row is not None, "the table has one row"
        number: int = row["number"]
        return number

    async def changes(self, since: int | None) -> Changes:
        revision = await self.revision()  # first: what changes from here on is read again
        names = None if since is None else await self._changed(since)
        tenants = {row["id"]: row for row in await self._database.fetch("tenants", names)}
        limiters: dict[str, list[Limiter]] = defaultdict(list)
        for row in await self._database.fetch("limiters", names):
            limiters[row["tenant_id"]].append(Limiter(**row))
        schemas: dict[str, dict[str, bytes]] = defaultdict(dict)
        if self._with_schemas:
            for row in await self._database.fetch("task_schemas", names):
                schemas[row["tenant_id"]][row["name"]] = row["schema"].encode()
        owners = {*tenants, *limiters, *schemas, *(names or ())}
        return Changes(
            revision=revision,
            whole=names is None,
            tenants={
                tenant_id: _belongings(
                    tenants.get(tenant_id), limiters[tenant_id], schemas[tenant_id]
                )
                for tenant_id in owners
            },
        )

    async def _changed(self, since: int) -> list[str] | None:
        rows = await self._database.fetch("revised", since)
        return [row["tenant"] for row in rows] if len(rows) <= _MOST_NAMED else None


def _belongings(
    row: asyncpg.Record | None, limiters: Sequence[Limiter], schemas: dict[str, bytes]
) -> Belongings:
    if row is None:
        return Belongings(limiters=limiters, schemas=schemas)
    try:
        quotas, mistake = overrides_of(row["quotas"]), ""
    except ValueError as error:
        quotas, mistake = {}, str(error)
    tenant = Tenant(
        id=row["id"],
        plan=row["plan"],
        weight=row["weight"],
        quotas=quotas,
        created_at=row["created_at"],
    )
    return Belongings(tenant, limiters, schemas, mistake)
