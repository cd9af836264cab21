"""Batches within one transaction of a tenant."""

from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.model.errors import TenantBusy
from gnomon.model.workflow_errors import BatchIsClosed, BatchNotFound, TooManyBatches
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.batches import NewBatch
from gnomon.store.postgres.batches import reading
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.workflows.reading import entries_of
from gnomon.workflow.batch import MOST_OPEN, BatchOfTasks, BatchState, BatchStatus

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_ENDED = (BatchStatus.SUCCEEDED, BatchStatus.FAILED, BatchStatus.EXPIRED)


class PostgresBatchChange:
    """An open transaction of one tenant, as far as batches go."""

    def __init__(self, connection: "Connection", tenant_id: str, due: list[Entry]) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._due = due  # hints to send once it is committed
        self.steps = False  # likewise: there are some for the chore

    async def insert(self, batch: NewBatch) -> BatchOfTasks:
        """Store a batch, and block its callbacks, which this transaction has stored. Raises
        TooManyBatches."""
        stored = await self._connection.fetchval(
            query("insert_batch"),
            batch.tenant_id,
            batch.id,
            batch.name,
            batch.deadline,
            batch.created_at,
            batch.created_by,
            None if batch.on_success is None else batch.on_success.id,
            None if batch.on_complete is None else batch.on_complete.id,
            MOST_OPEN,
        )
        if stored is None:
            raise TooManyBatches(MOST_OPEN)
        return await self.read(batch.id)

    async def close(self, batch_id: UUID) -> BatchOfTasks:
        """Let nothing more in; where all members have ended, callbacks start. Raises BatchNotFound,
        BatchIsClosed."""
        state = await self._lock(batch_id)
        if state in (BatchState.CANCELLED, BatchState.EXPIRED):
            found = await self.read(batch_id)
            raise BatchIsClosed(batch_id, found.status, "closed", found.reason or "")
        await self._connection.execute(query("close_batch"), self._tenant_id, batch_id)
        await self._count(batch_id)
        return await self.read(batch_id)

    async def cancel(self, batch_id: UUID, reason: str, *, interrupt: bool) -> BatchOfTasks:
        """Cancel what has not ended, and the callbacks; a chore follows. Raises BatchNotFound,
        BatchIsClosed."""
        await self._lock(batch_id)
        await self._count(batch_id)
        found = await self.read(batch_id)
        left = found.progress.pending or found.progress.dead
        if found.status in _ENDED and not left:
            raise BatchIsClosed(batch_id, found.status, "cancelled", "it has ended")
        await self._connection.execute(
            query("cancel_batch"), self._tenant_id, batch_id, reason, interrupt
        )
        await self._count(batch_id)
        self.steps = True
        return await self.read(batch_id)

    async def read(self, batch_id: UUID) -> BatchOfTasks:
        """Raises BatchNotFound."""
        return await reading.read(self._connection, self._tenant_id, batch_id)

    async def _count(self, batch_id: UUID) -> None:
        rows = await self._connection.fetch(query("pass_batches"), [self._tenant_id], [batch_id])
        self._due += entries_of(row for row in rows if row["id"] is not None)
        self.steps = self.steps or any(row["id"] is None for row in rows)

    async def _lock(self, batch_id: UUID) -> BatchState:
        try:
            state = await self._connection.fetchval(query("lock_batch"), self._tenant_id, batch_id)
        except asyncpg.LockNotAvailableError as error:
            raise TenantBusy("others put tasks into this batch for too long") from error
        if state is None:
            raise BatchNotFound(batch_id)
        return BatchState(state)
