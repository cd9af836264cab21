"""Tenants and what is theirs, read as a whole from PostgreSQL."""

from collections import defaultdict

import msgspec

from gnomon.model.limit import Limiter
from gnomon.model.tenant import Tenant
from gnomon.store.directory import Snapshot
from gnomon.store.postgres.database import Database

_quotas = msgspec.json.Decoder(dict[str, float | None])


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

    async def snapshot(self) -> Snapshot:
        revision = await self.revision()  # first: what changes from here on is read again
        tenants = {
            row["id"]: Tenant(
                id=row["id"],
                plan=row["plan"],
                weight=row["weight"],
                quotas=_quotas.decode(row["quotas"]),
                created_at=row["created_at"],
            )
            for row in await self._database.fetch("tenants")
        }
        limiters: dict[str, list[Limiter]] = defaultdict(list)
        for row in await self._database.fetch("limiters"):
            limiters[row["tenant_id"]].append(Limiter(**row))
        schemas = await self._schemas() if self._with_schemas else {}
        return Snapshot(revision, tenants, dict(limiters), schemas)

    async def _schemas(self) -> dict[tuple[str, str], bytes]:
        return {
            (row["tenant_id"], row["name"]): row["schema"].encode()
            for row in await self._database.fetch("task_schemas")
        }
