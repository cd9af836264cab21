"""Limiters and their use on PostgreSQL."""

from collections import defaultdict

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
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("list_limiters"), tenant_id, None)
            starts = await connection.fetch(query("limiter_starts"), tenant_id, None)
        started: dict[str, int] = defaultdict(int)
        for name, _, count in starts:
            started[name] += count
        return [_use(row, started[row["name"]]) for row in rows]

    async def get(self, tenant_id: str, name: str) -> LimiterUse:
        """One of them, with its fullest keys. Raises LimiterNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("list_limiters"), tenant_id, name)
            if row is None:
                raise LimiterNotFound(name)
            running = await connection.fetch(query("limiter_keys"), tenant_id, name, MOST_KEYS)
            starts = await connection.fetch(query("limiter_starts"), tenant_id, name)
        started = {key: count for _, key, count in starts}
        use = _use(row, sum(started.values()))
        if use.limiter.key is None:
            return use
        tasks = {row["key"]: row["running"] for row in running}
        fullest = list(dict.fromkeys([*tasks, *started]))[:MOST_KEYS]
        keys = [KeyUse(key, tasks.get(key, 0), started.get(key, 0)) for key in fullest]
        return msgspec.structs.replace(use, keys=keys)

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


def _use(row: asyncpg.Record, started: int) -> LimiterUse:
    limiter = Limiter(**{name: row[name] for name in Limiter.__struct_fields__})
    return LimiterUse(limiter, row["created_at"], row["updated_at"], row["running"], started)
