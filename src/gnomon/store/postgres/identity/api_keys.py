"""API keys in PostgreSQL."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.access.api_key import MOST_ENDED_KEYS, MOST_KEYS, MOST_LIVE_KEYS, ApiKey
from gnomon.access.grant_errors import KeyForbidden
from gnomon.access.principal import OPERATOR_ROLES, Requester, tenant_roles_of
from gnomon.model.errors import TenantNotFound, Unauthenticated
from gnomon.model.key_errors import KeyEnded, KeyNotFound, KeyRingFull, TooManyKeys
from gnomon.model.targets.allow_list import allow_list
from gnomon.store.ports.tenancy.keys import ApiKeyPage, NewKey, Replacement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_AFTER_ALL = UUID(int=(1 << 128) - 1)


class PostgresKeys:
    """Stores API keys. An unknown id raises KeyNotFound."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, hashes: Sequence[bytes], within: float) -> dict[bytes, ApiKey]:
        """The live keys among these, by their hash; given up after so many seconds."""
        rows = await self._database.fetch_within(within, "find_api_keys", hashes)
        return {row["hash"]: _key(row) for row in rows}

    async def any(self) -> bool:
        """Whether there is a live key at all."""
        row = await self._database.fetchrow("any_api_key")
        assert row is not None, "the statement gives one row"
        found: bool = row["found"]
        return found

    async def note_use(self, ids: Sequence[UUID]) -> None:
        """Record that these were used just now."""
        await self._database.execute("note_key_use", ids)

    async def list(self, owner: str | None, cursor: UUID | None, limit: int) -> ApiKeyPage:
        """Keys older than `cursor`, live and ended."""
        async with self._of(owner) as connection:
            rows = await connection.fetch(
                query("list_api_keys"), owner, cursor or _AFTER_ALL, limit + 1
            )
        # Each may have long lists to be read, and others wait for the loop.
        keys = await asyncio.to_thread(lambda: [_key(row) for row in rows[:limit]])
        return ApiKeyPage(keys, keys[-1].id if len(rows) > limit else None)

    async def get(self, owner: str | None, key_id: UUID) -> ApiKey:
        """Raises KeyNotFound where there is none, or it is of another owner."""
        async with self._of(owner) as connection:
            row = await connection.fetchrow(query("get_api_key"), owner, key_id)
        if row is None:
            raise KeyNotFound(key_id)
        return _key(row)

    async def create(self, new: NewKey, by: Requester | None = None) -> ApiKey:
        """Store a key, which ends no later than the one that created it; without `by` it was
        created on the database. Raises TooManyKeys, KeyRingFull, TenantNotFound, KeyForbidden,
        Unauthenticated where the requester's own key has ended."""
        async with self._of(new.tenant_id) as connection:
            await connection.execute(query("lock_api_keys"), new.tenant_id)
            latest = await _latest_end(connection, new.tenant_id, by)
            new = msgspec.structs.replace(new, expires_at=earliest(new.expires_at, latest))
            return await _insert(connection, new, by)

    async def rotate(
        self,
        owner: str | None,
        key_id: UUID,
        replacement: Replacement,
        overlap_seconds: float,
        by: Requester | None = None,
    ) -> ApiKey:
        """Create a second key like this one, with as long a life as the requester can give, and let
        this one end after the overlap. Returns the new one. Raises TooManyKeys, KeyEnded,
        KeyForbidden, Unauthenticated where the requester's own key has ended."""
        async with self._of(owner) as connection:
            await connection.execute(query("lock_api_keys"), owner)
            latest = await _latest_end(connection, owner, by)
            row = await connection.fetchrow(query("get_api_key"), owner, key_id)
            if row is None:
                raise KeyNotFound(key_id)
            if not row["live"]:
                raise KeyEnded(key_id)
            new = _like(_key(row), replacement, row["now"], latest)
            made = await _insert(connection, new, by)
            statement = query("expire_api_key")
            await connection.fetchrow(statement, owner, key_id, overlap_seconds)
            return made

    async def revoke(
        self, owner: str | None, key_id: UUID, *, cascade: bool = False
    ) -> Sequence[UUID]:
        """Revoke it; with `cascade` also the keys that were created with it, and with those. One
        that has ended stays as it is. Returns the revoked ones."""
        async with self._of(owner) as connection:
            if await connection.fetchrow(query("get_api_key"), owner, key_id) is None:
                raise KeyNotFound(key_id)
            if cascade:
                # A statement of its own: what the next one sees must be younger than the lock.
                await connection.execute(query("lock_api_keys"), owner)
            rows = await connection.fetch(query("revoke_api_keys"), owner, key_id, cascade)
            return [row["id"] for row in rows]

    def _of(self, owner: str | None) -> "AbstractAsyncContextManager[Connection]":
        """A transaction: behind the wall of the tenant, or none, for the operators' keys."""
        return self._database.transaction() if owner is None else self._database.scoped(owner)


async def _latest_end(
    connection: "Connection", owner: str | None, by: Requester | None
) -> datetime | None:
    """When a key that the requester creates must end at the latest. Raises Unauthenticated where
    their own has ended: a process learns of that up to half a second later."""
    if by is None or by.key_id is None:
        return None if by is None else by.expires_at
    row = await connection.fetchrow(query("get_api_key"), owner, by.key_id)
    if row is None or not row["live"]:
        raise Unauthenticated(given=True)
    return earliest(by.expires_at, row["expires_at"])


def earliest(*moments: datetime | None) -> datetime | None:
    """None is never."""
    return min((at for at in moments if at is not None), default=None)


async def _insert(connection: "Connection", new: NewKey, by: Requester | None) -> ApiKey:
    rows = await connection.fetch(query("live_api_keys"), new.tenant_id, new.name)
    if by is not None and not all(by.covers(_key(row).grant) for row in rows):
        raise KeyForbidden(
            f"a key named {new.name!r} may do more than yours, and tasks are known by the name of "
            "who made them; choose another name"
        )
    if len(rows) >= MOST_LIVE_KEYS:
        raise TooManyKeys(new.name, [row["id"] for row in rows])
    if await connection.fetchval(query("count_live_keys"), new.tenant_id) >= MOST_KEYS:
        raise KeyRingFull(MOST_KEYS)
    await connection.execute(query("forget_api_keys"), new.tenant_id, MOST_ENDED_KEYS)
    try:
        row = await connection.fetchrow(
            query("insert_api_key"),
            new.id,
            new.tenant_id,
            new.name,
            new.hash,
            new.hint,
            sorted(new.roles),
            None if new.task_types is None else sorted(new.task_types),
            new.allow.functions,
            new.allow.hosts,
            new.created_by,
            None if by is None else by.key_id,
            new.expires_at,
            None if new.queues is None else sorted(new.queues),
        )
    except asyncpg.ForeignKeyViolationError as error:
        raise TenantNotFound(str(new.tenant_id)) from error
    assert row is not None, "an insert returns its row"
    return _key(row)


def _like(key: ApiKey, replacement: Replacement, now: datetime, latest: datetime | None) -> NewKey:
    """The key that takes its place, with as long a life as it had, or as the requester can give.
    Raises KeyForbidden where that would be shorter than what is left of it."""
    whole = None if key.expires_at is None else now + (key.expires_at - key.created_at)
    expires_at = earliest(whole, latest)
    if expires_at is not None and (key.expires_at is None or expires_at < key.expires_at):
        raise KeyForbidden(
            f"the new key could last until {expires_at:%Y-%m-%dT%H:%M:%SZ}, when your own key or "
            f"token ends, and {key.id} lasts longer; rotate it with a key that lasts as long"
        )
    return NewKey(
        id=replacement.id,
        tenant_id=key.tenant_id,
        name=key.name,
        hash=replacement.hash,
        hint=replacement.hint,
        roles=key.roles,
        task_types=key.task_types,
        queues=key.queues,
        allow=key.allow,
        expires_at=expires_at,
        created_by=replacement.created_by,
    )


def _key(row: asyncpg.Record) -> ApiKey:
    owner, types, queues = row["tenant_id"], row["task_types"], row["queues"]
    return ApiKey(
        id=row["id"],
        tenant_id=owner,
        name=row["name"],
        hint=row["hint"],
        roles=OPERATOR_ROLES if owner is None else tenant_roles_of(row["roles"]),
        task_types=None if types is None else frozenset(types),
        queues=None if queues is None else frozenset(queues),
        allow=allow_list(row["functions"], row["hosts"]),
        created_at=row["created_at"],
        created_by=row["created_by"],
        made_by=row["made_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )
