"""Tenants in PostgreSQL. Every process learns of a change by the revision."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg
import msgspec
import structlog

from gnomon.model.errors import StoreError, TenantExists, TenantInUse, TenantNotFound
from gnomon.model.fleet.tenant import Tenant, networks_of, overrides_of
from gnomon.model.targets.allow_list import AllowList, allow_list
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.ports.tenancy.tenants import TenantChange, TenantPage
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.levels.level_store import BY_INDEX
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_AT_ONCE = 2_000  # rows that are removed in one transaction

log = structlog.get_logger("gnomon.store")


class PostgresTenants:
    """All tenants of the installation. An unknown one raises TenantNotFound."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, after: str, limit: int) -> TenantPage:
        """Tenants whose names come after this one; '' starts with the first."""
        rows = await self._database.fetch("list_tenants", after, limit + 1)
        found = [tenant_of(row) for row in rows[:limit]]
        return TenantPage(found, found[-1].id if len(rows) > limit else None)

    async def get(self, tenant_id: str) -> Tenant:
        rows = await self._database.fetch("tenants", [tenant_id])
        if not rows:
            raise TenantNotFound(tenant_id)
        return tenant_of(rows[0])

    async def create(self, tenant: Tenant) -> Tenant:
        """Raises TenantExists."""
        row = await self._database.fetchrow(
            "insert_tenant",
            tenant.id,
            tenant.plan,
            tenant.weight,
            _stored(tenant.quotas),
            tenant.targets_allow,
            tenant.allow.functions,
            tenant.allow.hosts,
        )
        if row is None:
            raise TenantExists(tenant.id)
        return tenant_of(row)

    async def change(self, tenant_id: str, change: TenantChange) -> Tenant:
        async with self._database.transaction() as connection:
            before = await _locked(connection, tenant_id)
            allow = before.targets_allow if change.targets_allow is None else change.targets_allow
            row = await connection.fetchrow(
                query("update_tenant"),
                tenant_id,
                change.plan or before.plan,
                change.weight or before.weight,
                _stored(_changed(before.quotas, change)),
                allow,
                *_lists(before.allow, change),
            )
            assert row is not None, "the tenant is locked"
            return tenant_of(row)

    async def remove(self, tenant_id: str) -> None:
        """Remove it with its keys, secrets and service levels. Raises TenantInUse while it has
        tasks or jobs."""
        if tenant_id == DEFAULT_TENANT:
            raise TenantInUse(
                "the tenant 'default' cannot be removed: without authentication all work is its own"
            )
        async with self._database.transaction() as connection:
            await _locked(connection, tenant_id)
            has = await connection.fetchrow(query("tenant_has"), tenant_id)
            assert has is not None, "the statement gives one row"
            if has["tasks"] or has["cron_jobs"]:
                things = [name.replace("_", " ") for name, there in has.items() if there]
                raise TenantInUse(
                    f"the tenant {tenant_id!r} still has {' and '.join(things)}; revoke its keys, "
                    "remove its cron jobs, and delete its tasks or wait for their end"
                )
            await connection.execute(query("delete_tenant"), tenant_id)
        with suppress(StoreError):  # it is removed all the same; retention removes what is left
            await self._remove_levels(tenant_id)

    async def _remove_levels(self, tenant_id: str) -> None:
        """In short transactions: there may be a hundred thousand."""
        removed = _AT_ONCE
        while removed >= _AT_ONCE:
            async with self._database.transaction() as connection:
                await connection.execute(BY_INDEX)
                done = await connection.execute(query("remove_tenant_levels"), tenant_id, _AT_ONCE)
            removed = int(done.rpartition(" ")[2])


async def _locked(connection: "Connection", tenant_id: str) -> Tenant:
    row = await connection.fetchrow(query("lock_tenant"), tenant_id)
    if row is None:
        raise TenantNotFound(tenant_id)
    return tenant_of(row)


def tenant_of(row: asyncpg.Record) -> Tenant:
    """The tenant of a row. Quotas that were written by hand and are not valid count as not there:
    so they can be corrected."""
    try:
        quotas = overrides_of(row["quotas"])
    except ValueError as error:
        quotas = {}
        log.warning("quotas of a tenant are not valid", tenant=row["id"], why=str(error))
    return Tenant(
        id=row["id"],
        plan=row["plan"],
        weight=row["weight"],
        quotas=quotas,
        created_at=row["created_at"],
        targets_allow=networks_of(row["targets_allow"]),
        allow=allow_list(row["functions"], row["hosts"]),
    )


def _changed(
    quotas: Mapping[str, float | None], change: TenantChange
) -> Mapping[str, float | None]:
    kept = {name: value for name, value in quotas.items() if name not in change.as_planned}
    return kept | dict(change.quotas)


def _lists(before: AllowList, change: TenantChange) -> Iterator[tuple[str, ...] | None]:
    """The functions and the hosts that a tenant is limited to after a change."""
    for name in before.__struct_fields__:
        given = getattr(change.allow, name)
        kept = None if name in change.lifted else getattr(before, name)
        yield kept if given is None else given


def _stored(quotas: Mapping[str, float | None]) -> str:
    return msgspec.json.encode(quotas).decode()
