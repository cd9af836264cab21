"""Limiters and their use on PostgreSQL."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import asyncpg
import msgspec

from gnomon.limits.limiter import MOST_LIMITERS, Limiter
from gnomon.model.errors import LimiterNotFound, TooManyLimiters
from gnomon.store.ports.tenancy.limits import KeyUse, LimiterUse
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks import counting
from gnomon.store.postgres.tasks.counting import RunningGroup
from gnomon.store.postgres.tasks.reading import MOST_RUNNING

MOST_KEYS = 20  # shown of a limiter


class PostgresLimiters:
    """Stores the limiters of tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str) -> Sequence[LimiterUse]:
        """All of a tenant, by name."""
        return await self._used(tenant_id, None)

    async def get(self, tenant_id: str, name: str) -> LimiterUse:
        """One of them, with its fullest keys. Raises LimiterNotFound."""
        found = await self._used(tenant_id, name)
        if not found:
            raise LimiterNotFound(name)
        (use,) = found
        if use.limiter.key is None:
            return use
        keys = await self.keys(tenant_id, [use.limiter])
        return msgspec.structs.replace(use, keys=keys[name])

    async def _used(self, tenant_id: str, name: str | None) -> Sequence[LimiterUse]:
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("list_limiters"), tenant_id, name)
            if not rows:
                return []
            names = None if name is None else [name]
            starts = await connection.fetch(query("limiter_starts"), tenant_id, names)
        running = await counting.running(self._database, tenant_id)
        started: dict[str, int] = defaultdict(int)
        for limiter, _, count in starts:
            started[limiter] += count
        return [_use(row, running, started[row["name"]]) for row in rows]

    async def keys(
        self, tenant_id: str, limiters: Sequence[Limiter]
    ) -> dict[str, Sequence[KeyUse]]:
        """The fullest keys of limiters, by their names."""
        names = [each.name for each in limiters]
        async with self._database.scoped(tenant_id) as connection:
            starts = await connection.fetch(query("limiter_starts"), tenant_id, names)
        # As `counting.running`, from outside the wall.
        rows = await self._database.fetch(
            "limiter_keys",
            tenant_id,
            names,
            [each.task_type for each in limiters],
            [each.queue for each in limiters],
            MOST_KEYS,
            MOST_RUNNING,
        )
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


def _use(row: asyncpg.Record, running: Iterable[RunningGroup], started: int) -> LimiterUse:
    limiter = Limiter(**{name: row[name] for name in Limiter.__struct_fields__})
    applies = (
        group.tasks
        for group in running
        if limiter.task_type in (None, group.task_type) and limiter.queue in (None, group.queue)
    )
    return LimiterUse(limiter, row["created_at"], row["updated_at"], sum(applies), started)
