"""Limiters and their use on PostgreSQL."""

from collections import defaultdict
from collections.abc import Sequence

import asyncpg
import msgspec

from gnomon.limits.limiter import MOST_LIMITERS, Limiter
from gnomon.model.errors import LimiterNotFound, TooManyLimiters
from gnomon.store.ports.limits import KeyUse, LimiterUse
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

MOST_KEYS = 20  # shown of a limiter


class PostgresLimiters:
    """Stores the limiters of tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str) -> list[LimiterUse]:
        """All of a tenant, by name."""
        async with self._database.transaction() as connection:  # see list_limiters
            rows = await connection.fetch(query("list_limiters"), tenant_id, None)
            starts = await connection.fetch(query("limiter_starts"), tenant_id, None)
        started: dict[str, int] = defaultdict(int)
        for name, _, count in starts:
            started[name] += count
        return [_use(row, started[row["name"]]) for row in rows]

    async def get(self, tenant_id: str, name: str) -> LimiterUse:
        """One of them, with its fullest keys. Raises LimiterNotFound."""
        async with self._database.transaction() as connection:  # see list_limiters
            row = await connection.fetchrow(query("list_limiters"), tenant_id, name)
            if row is None:
                raise LimiterNotFound(name)
            starts = await connection.fetch(query("limiter_starts"), tenant_id, [name])
        use = _use(row, sum(count for _, _, count in starts))
        if use.limiter.key is None:
            return use
        return msgspec.structs.replace(use, keys=(await self.keys(tenant_id, [name]))[name])

    async def keys(self, tenant_id: str, names: Sequence[str]) -> dict[str, Sequence[KeyUse]]:
        """The fullest keys of limiters."""
        async with self._database.transaction() as connection:  # see list_limiters
            rows = await connection.fetch(query("limiter_keys"), tenant_id, names, MOST_KEYS)
            starts = await connection.fetch(query("limiter_starts"), tenant_id, names)
        running: dict[str, dict[str, int]] = {name: {} for name in names}
        started: dict[str, dict[str, int]] = {name: {} for name in names}
        for name, key, count in rows:
            running[name][key] = count
        for name, key, count in starts:
            started[name][key] = count
        return {name: _fullest(running[name], started[name]) for name in names}

    async def put(self, limiter: Limiter) -> bool:
        """Create or replace one; gives whether it is new. Raises TooManyLimiters."""
        async with self._database.scoped(limiter.tenant_id) as connection:
            # Those who add to the same tenant count one after the other.
            await connection.execute(query("lock_limiters"), limiter.tenant_id)
            row = await connection.fetchrow(
                query("put_limiter"), *msgspec.structs.astuple(limiter), MOST_LIMITERS
            )
        if row is None:
            raise TooManyLimiters(MOST_LIMITERS)
        created: bool = row["created"]
        return created

    async def delete(self, tenant_id: str, name: str) -> None:
        """Remove one. Raises LimiterNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("delete_limiter"), tenant_id, name)
        if row is None:
            raise LimiterNotFound(name)


def _fullest(running: dict[str, int], started: dict[str, int]) -> Sequence[KeyUse]:
    fullest = list(dict.fromkeys([*running, *started]))[:MOST_KEYS]
    return [KeyUse(key, running.get(key, 0), started.get(key, 0)) for key in fullest]


def _use(row: asyncpg.Record, started: int) -> LimiterUse:
    limiter = Limiter(**{name: row[name] for name in Limiter.__struct_fields__})
    return LimiterUse(limiter, row["created_at"], row["updated_at"], row["running"], started)
