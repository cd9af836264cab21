"""Tenants with their limiters, schemas and secrets, read from PostgreSQL: all, or those changed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import asyncpg
import msgspec
import structlog

from gnomon.access.webhook_secret import PublicKey, SigningSecret
from gnomon.limits.limiter import Limiter
from gnomon.model.fleet.crowding import Crowds
from gnomon.model.fleet.tenant import Tenant, networks_of, overrides_of
from gnomon.model.targets.allow_list import allow_list
from gnomon.model.tasks.type_defaults import type_defaults
from gnomon.store.ports.work.task_types import ANY_PAYLOAD
from gnomon.store.postgres.crowding.crowding import crowds_of
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.rows import UNREADABLE
from gnomon.store.tenant_cache import CachedTenant, Changes, Revision

log = structlog.get_logger("gnomon.store")

_MOST_NAMED = 1_000  # tenants; where more have changed, all are read


_T = TypeVar("_T", bound=msgspec.Struct)


class PostgresTenantReader:
    """The source of a TenantCache. Only nodes need the webhook secrets; others get their public
    keys."""

    def __init__(self, database: Database, *, with_secrets: bool = False) -> None:
        self._database = database
        self._with_secrets = with_secrets

    async def revision(self) -> Revision:
        row = await self._database.fetchrow("revision")
        assert row is not None, "the table has one row"
        return Revision(*row)

    async def crowds(self) -> Crowds:
        return crowds_of(await self._database.fetch("crowded_lanes"))

    async def changes(self, since: int | None) -> Changes:
        revision, *_ = await self.revision()  # first: what changes from here on is read again
        names = None if since is None else await self._changed(since)
        tenants = {row["id"]: row for row in await self._database.fetch("tenants", names)}
        things: dict[str, dict[str, Any]] = defaultdict(dict)
        await self._add(things, "limiters", "limiters", Limiter, names)
        for row in await self._database.fetch("task_types", names):
            _add_task_type(things[row["tenant_id"]], row)
        if self._with_secrets:
            await self._add(things, "secrets", "signing_secrets", SigningSecret, names)
        else:
            await self._add(things, "public_keys", "public_webhook_keys", PublicKey, names)
        return Changes(
            revision=revision,
            whole=names is None,
            tenants={
                tenant_id: _cached_tenant(tenants.get(tenant_id), things[tenant_id])
                for tenant_id in {*tenants, *things, *(names or ())}
            },
        )

    async def _add(
        self,
        things: dict[str, dict[str, Any]],
        member: str,
        statement: str,
        kind: type[_T],
        names: Iterable[str] | None,
    ) -> None:
        fields = kind.__struct_fields__
        for row in await self._database.fetch(statement, names):
            thing = kind(**{name: row[name] for name in fields})
            things[row["tenant_id"]].setdefault(member, []).append(thing)

    async def _changed(self, since: int) -> list[str] | None:
        rows = await self._database.fetch("revised", since)
        return [row["tenant"] for row in rows] if len(rows) <= _MOST_NAMED else None


def _add_task_type(things: dict[str, Any], row: asyncpg.Record) -> None:
    name, schema = row["name"], row["schema"].encode()
    if schema != ANY_PAYLOAD:
        things.setdefault("schemas", {})[name] = schema
    if row["defaults"] is None:
        return
    try:
        things.setdefault("defaults", {})[name] = type_defaults(row["defaults"])
    except UNREADABLE as error:  # it was not stored by the API
        log.warning("the defaults of a task type cannot be read", task_type=name, why=str(error))


def _cached_tenant(row: asyncpg.Record | None, things: Mapping[str, Any]) -> CachedTenant:
    if row is None:
        return CachedTenant(**things)
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
        targets_allow=networks_of(row["targets_allow"]),
        allow=allow_list(row["functions"], row["hosts"]),
    )
    return CachedTenant(tenant, **things, mistake=mistake)
