"""Bulk operations outside of transactions that change tasks."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from gnomon.model.bulk_errors import BulkOperationNotFound
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.bulk import BulkKey, BulkOperation, BulkPage
from gnomon.store.ports.work.tasks import HIGHEST_ID
from gnomon.store.postgres.bulk.bulk_change import operation_of_row
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import send_hints
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import readable


class PostgresBulk:
    """Reads bulk operations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: BulkKey) -> BulkOperation:
        """Raises BulkOperationNotFound."""
        async with self._database.scoped(key.tenant_id) as connection:
            row = await connection.fetchrow(query("bulk_get"), key.tenant_id, key.operation_id)
        if row is None:
            raise BulkOperationNotFound(key.operation_id)
        return operation_of_row(row)

    async def list(self, tenant_id: str, cursor: UUID | None, limit: int) -> BulkPage:
        """Operations older than `cursor`, newest first."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(
                query("bulk_list"), tenant_id, cursor or HIGHEST_ID, limit + 1
            )
        stopped = rows[limit - 1]["id"] if len(rows) > limit else None
        return BulkPage(readable(rows[:limit], operation_of_row, "bulk operation"), stopped)

    async def under_way(self, after: UUID, most: int) -> Sequence[BulkKey]:
        """Operations of all tenants that have not ended, in their order."""
        rows = await self._database.fetch("bulk_open", after, most)
        return [BulkKey(row["tenant_id"], row["id"]) for row in rows]


class CollectedHints:
    """Hints of a node's own changes, sent after the commit over a connection of the pool."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due: list[Entry] = []
        self._cancels: list[TaskKey] = []
        self._steps = False

    def due(self, entries: Iterable[Entry]) -> None:
        self._due.extend(entries)

    def cancel(self, key: TaskKey) -> None:
        self._cancels.append(key)

    def steps(self) -> None:
        self._steps = True

    async def send(self) -> None:
        """Raises StoreError; what is lost is found by the scan."""
        due, self._due = self._due, []
        cancels, self._cancels = self._cancels, []
        steps, self._steps = self._steps, False
        if due or cancels or steps:
            async with self._database.connection() as connection:
                await send_hints(connection, due, cancels, steps=steps)
