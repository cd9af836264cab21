"""Counts the bytes that tenants have stored.

Live tasks come first and then the archive: a task that ends meanwhile may be counted twice, and
never not at all. Each partition is a statement of its own, so that no snapshot is held for long.
"""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from gnomon.clock import Clock
from gnomon.store.ports.tenancy.storage import StorageLevel
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.usage import sizes

# A day of a tenant that has millions of tasks is read as a whole: one that is never counted to the
# end would stay full for ever.
_STATEMENT_SECONDS = 300.0
_RUN = f"CASE WHEN cron_job_id IS NULL THEN 0 ELSE {sizes.FIRE_BYTES} END"
_OF_TASK = ("target", "payload", "retry_policy", "tags", "name", "idempotency_key", "last_error")
_Rows = tuple[str, str, Sequence[str]]
# The bytes of a row, and the columns whose size a tenant can choose, as they are stored.
_LIVE: tuple[_Rows, ...] = (
    ("task", f"{sizes.TASK_BYTES} + {_RUN}", _OF_TASK),
    ("cron_job", str(sizes.JOB_BYTES), ("definition", "tags")),
    ("idempotency", str(sizes.KEY_BYTES), ("key", "answer")),
    ("event", str(sizes.EVENT_BYTES), ("detail",)),
    ("transition", str(sizes.TRANSITION_BYTES), ()),
)
_PARTITIONED: tuple[_Rows, ...] = (
    ("task_archive", f"{sizes.TASK_BYTES} + {_RUN}", (*_OF_TASK, "response_body", "result")),
    ("task_payload", "0", ("payload",)),
    ("execution", str(sizes.EXECUTION_BYTES), ("error", "response_body", "traceback")),
)
# Fires that have no task. Those of jobs that are gone stay as few as they are.
_SKIPPED = f"""
    SELECT {sizes.FIRE_BYTES} * count(*)
    FROM gnomon.cron_job AS j
    CROSS JOIN LATERAL (
        SELECT FROM gnomon.occurrence AS o WHERE o.cron_job_id = j.id AND o.task_id IS NULL
    ) AS o
    WHERE j.tenant_id = $1
"""  # noqa: S608
_PARTITIONS = """
    SELECT c.relname::text AS name
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = ('gnomon.' || $1)::regclass
"""


class PostgresStorage:
    """Counts the bytes of tenants."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def levels(self, tenants: Sequence[str]) -> tuple[list[StorageLevel], datetime]:
        """The stored bytes of these tenants, and the store's time."""
        rows = await self._database.fetch("storage_levels", list(tenants))
        fields = StorageLevel.__struct_fields__
        levels = [StorageLevel(**{name: row[name] for name in fields}) for row in rows]
        return levels, rows[0]["now"] if rows else self._clock.now()

    async def count(self, level: StorageLevel) -> int | None:
        """Count the bytes of a tenant, and correct what is known of it. None: another node has
        counted it meanwhile."""
        began = self._clock.monotonic()
        # Once more: what it had before the count is what the count is compared with.
        ((before,), _) = await self.levels([level.tenant_id])
        counted = await self._counted(level.tenant_id)
        # What was taken off meanwhile may not have been there to be counted: it would be taken off
        # twice.
        ((after,), _) = await self.levels([level.tenant_id])
        gone = after.freed - before.freed
        async with self._database.connection() as connection:
            corrected = await connection.fetchval(
                query("correct_storage"),
                level.tenant_id,
                counted - before.stored + gone,
                before.counted_at,
                self._clock.monotonic() - began,
            )
        return None if corrected is None else counted

    async def _counted(self, tenant_id: str) -> int:
        total = 0
        for table, row, columns in _LIVE:
            total += await self._ask(_sum(table, row, columns), tenant_id)
        for parent, row, columns in _PARTITIONED:
            for name in await self._partitions(parent):
                total += await self._ask(_sum(name, row, columns), tenant_id)
        return total + await self._ask(_SKIPPED, tenant_id)

    async def _partitions(self, parent: str) -> list[str]:
        async with self._database.connection() as connection:
            return [row["name"] for row in await connection.fetch(_PARTITIONS, parent)]

    async def _ask(self, statement: str, tenant_id: str) -> int:
        async with self._database.connection() as connection:
            try:
                return int(
                    await connection.fetchval(statement, tenant_id, timeout=_STATEMENT_SECONDS)
                )
            except asyncpg.UndefinedTableError:  # it was past retention
                return 0


def _sum(table: str, row: str, columns: Sequence[str]) -> str:
    sizes_ = " + ".join([row, *(f"coalesce(pg_column_size({c}), 0)" for c in columns)])
    return f"SELECT coalesce(sum({sizes_}), 0)::bigint FROM gnomon.{table} WHERE tenant_id = $1"  # noqa: S608
