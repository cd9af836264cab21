"""Reads batches."""

from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.model.workflow_errors import BatchNotFound
from gnomon.store.ports.work.batches import BatchPage
from gnomon.store.ports.work.tasks import HIGHEST_ID
from gnomon.store.postgres.queries import query
from gnomon.workflow.batch import BatchOfTasks, BatchState, BatchStatus, MemberCounts

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

# Of a status: the state, whether members are pending, and whether all have succeeded.
_CHOSEN: dict[BatchStatus, tuple[BatchState, bool | None, bool | None]] = {
    BatchStatus.OPEN: (BatchState.OPEN, None, None),
    BatchStatus.RUNNING: (BatchState.CLOSED, True, None),
    BatchStatus.SUCCEEDED: (BatchState.CLOSED, False, True),
    BatchStatus.FAILED: (BatchState.CLOSED, False, False),
    BatchStatus.CANCELLING: (BatchState.CANCELLED, True, None),
    BatchStatus.CANCELLED: (BatchState.CANCELLED, False, None),
    BatchStatus.EXPIRED: (BatchState.EXPIRED, None, None),
}


async def read(connection: "Connection", tenant_id: str, batch_id: UUID) -> BatchOfTasks:
    """Raises BatchNotFound."""
    row = await connection.fetchrow(query("get_batch"), tenant_id, batch_id)
    if row is None:
        raise BatchNotFound(batch_id)
    return batch_of(row)


async def page(
    connection: "Connection",
    tenant_id: str,
    status: BatchStatus | None,
    cursor: UUID | None,
    limit: int,
) -> BatchPage:
    """Batches older than `cursor`, newest first."""
    state, pending, succeeded = (None, None, None) if status is None else _CHOSEN[status]
    states = None if state is None else [state]
    rows = await connection.fetch(
        query("list_batches"),
        tenant_id, cursor or HIGHEST_ID, states, pending, succeeded, limit + 1,
    )  # fmt: skip
    if len(rows) > limit:
        more = rows[limit - 1]["id"]
    else:
        more = await connection.fetchval(
            query("last_batch_examined"), tenant_id, cursor or HIGHEST_ID
        )
    return BatchPage([batch_of(row) for row in rows[:limit]], more)


def batch_of(row: asyncpg.Record) -> BatchOfTasks:
    """A row of get_batch or of a list."""
    counts = ("total", "succeeded", "dead", "failed", "cancelled")
    return BatchOfTasks(
        batch_id=row["id"],
        tenant_id=row["tenant_id"],
        name=row["name"],
        state=BatchState(row["state"]),
        progress=MemberCounts(*(int(row[each]) for each in counts)),
        on_success=row["on_success"],
        on_complete=row["on_complete"],
        reason=row["reason"],
        deadline=row["deadline"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        closed_at=row["closed_at"],
        completed_at=row["completed_at"],
        finished_at=row["finished_at"],
    )
