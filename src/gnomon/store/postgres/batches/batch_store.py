"""Batches on PostgreSQL, outside of transactions that change them."""

from collections.abc import Sequence
from uuid import UUID

from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.work.batches import BatchPage
from gnomon.store.postgres.batches import reading
from gnomon.store.postgres.database import Database
from gnomon.workflow.batch import BatchOfTasks, BatchStatus


class PostgresBatches:
    """Reads batches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: str, batch_id: UUID) -> BatchOfTasks:
        """Raises BatchNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            return await reading.read(connection, tenant_id, batch_id)

    async def list(
        self, tenant_id: str, status: BatchStatus | None, cursor: UUID | None, limit: int
    ) -> BatchPage:
        """Batches older than `cursor`, newest first."""
        async with self._database.scoped(tenant_id) as connection:
            return await reading.page(connection, tenant_id, status, cursor, limit)

    async def unended(self, keys: Sequence[TaskKey]) -> set[TaskKey]:
        """Those of the batches, of any tenants, that go on by themselves."""
        rows = await self._database.fetch(
            "unended_batches", [key.tenant_id for key in keys], [key.id for key in keys]
        )
        return {TaskKey(tenant_id, batch_id) for tenant_id, batch_id in rows}
