"""Tenants and keys, for tests that need somebody to be."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from gnomon.access.api_key import RANDOM_BYTES, hash_of, hint_of, key_from
from gnomon.access.principal import OPERATOR_ROLES, TENANT_ROLES, Role
from gnomon.clock import SystemClock, new_id, new_secret
from gnomon.model.targets.allow_list import EVERYTHING, AllowList
from gnomon.store.ports.tenancy.keys import NewKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.api_keys import PostgresKeys

if TYPE_CHECKING:
    from uuid import UUID


async def make_tenant(database: Database, tenant_id: str, plan: str = "unlimited") -> str:
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO gnomon.tenant (id, plan) VALUES ($1, $2)", tenant_id, plan
        )
    return tenant_id


async def make_key(
    database: Database,
    tenant_id: str | None = "default",
    *,
    name: str = "test",
    roles: Iterable[Role] = TENANT_ROLES,
    task_types: Iterable[str] | None = None,
    allow: AllowList = EVERYTHING,
    expires_at: datetime | None = None,
) -> tuple["UUID", str]:
    """The id of a new key, and the key."""
    secret = key_from(new_secret(RANDOM_BYTES))
    made = await PostgresKeys(database).create(
        NewKey(
            id=new_id(SystemClock().now()),
            tenant_id=tenant_id,
            name=name,
            hash=hash_of(secret),
            hint=hint_of(secret),
            roles=frozenset(roles),
            task_types=None if task_types is None else frozenset(task_types),
            allow=allow,
            expires_at=expires_at,
        )
    )
    return made.id, secret


async def make_operator(database: Database, name: str = "ops") -> tuple["UUID", str]:
    """The id of a new operator's key, and the key."""
    return await make_key(database, None, name=name, roles=OPERATOR_ROLES)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
