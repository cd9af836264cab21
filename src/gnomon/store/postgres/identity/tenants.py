"""Tenants, as their operator makes and changes them. Every process hears of it by the revision."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import asyncpg
import msgspec
import structlog

from gnomon.model.allow_list import EVERYTHING, AllowList, allow_list
from gnomon.model.errors import TenantExists, TenantInUse, TenantNotFound
from gnomon.model.task import DEFAULT_TENANT
from gnomon.model.tenant import Tenant, networks_of, overrides_of
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

Overrides = Mapping[str, float | None]

log = structlog.get_logger("gnomon.store")


class TenantChange(msgspec.Struct, frozen=True, kw_only=True):
    """What to change; the rest stays."""

    plan: str | None = None
    weight: float | None = None
    quotas: Overrides = {}  # None lifts a quota
    as_planned: frozenset[str] = frozenset()  # quotas that are the plan's again
    targets_allow: tuple[str, ...] | None = None  # all that it may reach from now on
    allow: AllowList = EVERYTHING  # lists that it is held to from now on; None: as they are
    lifted: frozenset[str] = frozenset()  # lists that it is held to no longer, by their names


class PostgresTenants:
    """An unknown tenant raises TenantNotFound."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[Tenant]:
        """All, by name."""
        rows = await self._database.fetch("tenants", None)
        return sorted((tenant_of(row) for row in rows), key=lambda tenant: tenant.id)

    async def get(self, tenant_id: str) -> Tenant:
        async with self._database.transaction() as connection:
            return await _locked(connection, tenant_id)

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
        """With its keys. Raises TenantInUse while it has tasks or cron jobs."""
        if tenant_id == DEFAULT_TENANT:
            raise TenantInUse("the tenant 'default' stays: without authentication all is its own")
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


async def _locked(connection: "Connection", tenant_id: str) -> Tenant:
    row = await connection.fetchrow(query("lock_tenant"), tenant_id)
    if row is None:
        raise TenantNotFound(tenant_id)
    return tenant_of(row)


def tenant_of(row: asyncpg.Record) -> Tenant:
    """What was written by hand and cannot be read counts as not written: so it can be mended."""
    try:
        quotas = overrides_of(row["quotas"])
    except ValueError as error:
        quotas = {}
        log.warning("quotas of a tenant are wrong", tenant=row["id"], why=str(error))
    return Tenant(
        id=row["id"],
        plan=row["plan"],
        weight=row["weight"],
        quotas=quotas,
        created_at=row["created_at"],
        targets_allow=networks_of(row["targets_allow"]),
        allow=allow_list(row["functions"], row["hosts"]),
    )


def _changed(quotas: Overrides, change: TenantChange) -> Overrides:
    kept = {name: value for name, value in quotas.items() if name not in change.as_planned}
    return kept | dict(change.quotas)


def _lists(before: AllowList, change: TenantChange) -> Iterator[tuple[str, ...] | None]:
    """The functions and the hosts that a tenant is held to after a change."""
    for name in before.__struct_fields__:
        given = getattr(change.allow, name)
        kept = None if name in change.lifted else getattr(before, name)
        yield kept if given is None else given


def _stored(quotas: Overrides) -> str:
    return msgspec.json.encode(quotas).decode()
