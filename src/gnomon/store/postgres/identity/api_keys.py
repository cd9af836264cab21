"""API keys in PostgreSQL."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.access.api_key import MOST_ENDED_KEYS, MOST_KEYS, MOST_LIVE_KEYS, ApiKey
from gnomon.access.grant_errors import KeyForbidden
from gnomon.access.principal import Principal, roles_of
from gnomon.model.allow_list import allow_list
from gnomon.model.errors import (
    KeyEnded,
    KeyNotFound,
    KeyRingFull,
    TenantNotFound,
    TooManyKeys,
    Unauthenticated,
)
from gnomon.store.ports.keys import ApiKeyPage, NewKey, Replacement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_AFTER_ALL = UUID(int=(1 << 128) - 1)


class PostgresKeys:
    """Stores API keys. An unknown id raises KeyNotFound."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, hashes: Sequence[bytes]) -> dict[bytes, ApiKey]:
        """The live keys among these, by their hash."""
        rows = await self._database.fetch("find_api_keys", hashes)
        return {row["hash"]: _key(row) for row in rows}

    async def any(self) -> bool:
        """Whether there is a live key at all."""
        row = await self._database.fetchrow("any_api_key")
        assert row is not None, "the statement gives one row"
        found: bool = row["found"]
        return found

    async def note_use(self, ids: Sequence[UUID]) -> None:
        """Write down that these were used just now."""
        await self._database.execute("note_key_use", ids)

    async def list(self, tenant_id: str, cursor: UUID | None, limit: int) -> ApiKeyPage:
        """Keys older than `cursor`, live and ended."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(
                query("list_api_keys"), tenant_id, cursor or _AFTER_ALL, limit + 1
            )
        # Each may have long lists to be read, and others wait for the loop.
        keys = await asyncio.to_thread(lambda: [_key(row) for row in rows[:limit]])
        return ApiKeyPage(keys, keys[-1].id if len(rows) > limit else None)

    async def get(self, tenant_id: str, key_id: UUID) -> ApiKey:
        """One of them."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("get_api_key"), tenant_id, key_id)
        if row is None:
            raise KeyNotFound(key_id)
        return _key(row)

    async def create(self, new: NewKey, by: Principal | None = None) -> ApiKey:
        """Keep a key, which ends no later than whoever makes it; None: the operator. Raises
        TooManyKeys, KeyRingFull, TenantNotFound, KeyForbidden, Unauthenticated where the maker
        has ended."""
        async with self._database.scoped(new.tenant_id) as connection:
            await connection.execute(query("lock_api_keys"), new.tenant_id)
            latest = await _latest_end(connection, by)
            new = msgspec.structs.replace(new, expires_at=earliest(new.expires_at, latest))
            return await _insert(connection, new, by)

    async def rotate(
        self,
        tenant_id: str,
        key_id: UUID,
        replacement: Replacement,
        overlap_seconds: float,
        by: Principal | None = None,
    ) -> ApiKey:
        """Make a second key like this one, with as long a life as whoever asks can give, and let
        this one end after the overlap. Gives the new one. Raises TooManyKeys, KeyEnded,
        KeyForbidden, Unauthenticated where the maker has ended."""
        async with self._database.scoped(tenant_id) as connection:
            await connection.execute(query("lock_api_keys"), tenant_id)
            latest = await _latest_end(connection, by)
            row = await connection.fetchrow(query("get_api_key"), tenant_id, key_id)
            if row is None:
                raise KeyNotFound(key_id)
            if not row["live"]:
                raise KeyEnded(key_id)
            new = _like(_key(row), replacement, row["now"], latest)
            made = await _insert(connection, new, by)
            statement = query("expire_api_key")
            await connection.fetchrow(statement, tenant_id, key_id, overlap_seconds)
            return made

    async def revoke(
        self, tenant_id: str, key_id: UUID, *, cascade: bool = False
    ) -> Sequence[UUID]:
        """End it at once; with `cascade` also the keys that were made with it, and with those.
        One that has ended stays as it is. Gives those that were ended."""
        async with self._database.scoped(tenant_id) as connection:
            if await connection.fetchrow(query("get_api_key"), tenant_id, key_id) is None:
                raise KeyNotFound(key_id)
            if cascade:
                # A statement of its own: what the next one sees must be younger than the lock.
                await connection.execute(query("lock_api_keys"), tenant_id)
            rows = await connection.fetch(query("revoke_api_keys"), tenant_id, key_id, cascade)
            return [row["id"] for row in rows]


async def _latest_end(connection: "Connection", by: Principal | None) -> datetime | None:
    """When whatever they make must have ended, at the latest. Raises Unauthenticated where they
    have ended themselves: a process knows that only half a second later."""
    if by is None or by.key_id is None:
        return None if by is None else by.expires_at
    row = await connection.fetchrow(query("get_api_key"), by.tenant_id, by.key_id)
    if row is None or not row["live"]:
        raise Unauthenticated(given=True)
    return earliest(by.expires_at, row["expires_at"])


def earliest(*moments: datetime | None) -> datetime | None:
    """None is never."""
    return min((at for at in moments if at is not None), default=None)


async def _insert(connection: "Connection", new: NewKey, by: Principal | None) -> ApiKey:
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
        )
    except asyncpg.ForeignKeyViolationError as error:
        raise TenantNotFound(new.tenant_id) from error
    assert row is not None, "an insert returns its row"
    return _key(row)


def _like(key: ApiKey, replacement: Replacement, now: datetime, latest: datetime | None) -> NewKey:
    """The key that takes its place, with as long a life as it had, or as whoever asks can give.
    Raises KeyForbidden where that would cut it short."""
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
        allow=key.allow,
        expires_at=expires_at,
        created_by=replacement.created_by,
    )


def _key(row: asyncpg.Record) -> ApiKey:
    types = row["task_types"]
    return ApiKey(
        id=row["id"],
        tenant_id=row["tenant_id"],
        name=row["name"],
        hint=row["hint"],
        roles=roles_of(row["roles"]),
        task_types=None if types is None else frozenset(types),
        allow=allow_list(row["functions"], row["hosts"]),
        created_at=row["created_at"],
        created_by=row["created_by"],
        made_by=row["made_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )
