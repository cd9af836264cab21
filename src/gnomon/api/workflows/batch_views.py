"""Batches as the API shows them."""

from uuid import UUID

import msgspec

from gnomon.usecases.checks.request_fields import Moment
from gnomon.workflow.batch import BatchOfTasks, BatchStatus


class BatchProgressView(msgspec.Struct, kw_only=True):
    """What became of the members: the sum of the others is `total`."""

    total: int
    succeeded: int
    failed: int  # dead letters, also those that were resolved, and expired tasks
    cancelled: int  # or deleted
    pending: int


class TaskBatchView(msgspec.Struct, kw_only=True):
    """A batch in its present state."""

    batch_id: UUID
    name: str | None
    status: BatchStatus
    reason: str | None  # why it was cancelled, or has expired
    progress: BatchProgressView
    on_success: UUID | None  # its task
    on_complete: UUID | None
    created_at: Moment
    created_by: str | None
    close_by: Moment  # or it expires
    closed_at: Moment | None
    finished_at: Moment | None


class TaskBatchReceipt(msgspec.Struct):
    """The answer to those who may not read."""

    batch_id: UUID
    status: BatchStatus


class TaskBatchList(msgspec.Struct):
    """A page of batches, newest first."""

    batches: list[TaskBatchView]
    next_cursor: str | None


def batch_view(batch: BatchOfTasks) -> TaskBatchView:
    progress = batch.progress
    return TaskBatchView(
        batch_id=batch.batch_id,
        name=batch.name,
        status=batch.status,
        reason=batch.reason,
        progress=BatchProgressView(
            total=progress.total,
            succeeded=progress.succeeded,
            failed=progress.failed,
            cancelled=progress.cancelled,
            pending=progress.pending,
        ),
        on_success=batch.on_success,
        on_complete=batch.on_complete,
        created_at=batch.created_at,
        created_by=batch.created_by,
        close_by=batch.deadline,
        closed_at=batch.closed_at,
        finished_at=batch.finished_at,
    )
