"""Batches."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.client.types import Spec
from gnomon.client.types.tasks import TaskSpec


class BatchSpec(Spec, kw_only=True):
    """A batch to open: tasks are put in by their `batch_id`, until it is closed. `on_success` runs
    when all have succeeded, `on_complete` when all have ended."""

    name: str | None = None
    on_success: TaskSpec | None = None
    on_complete: TaskSpec | None = None
    close_within_seconds: float | None = None  # or it expires; 24 hours unless it says


class BatchProgressInfo(msgspec.Struct, kw_only=True):
    """What became of the tasks of a batch: the sum of the others is `total`."""

    total: int
    succeeded: int
    failed: int
    cancelled: int
    pending: int


class BatchInfo(msgspec.Struct, kw_only=True):
    """A batch in its present state."""

    batch_id: UUID
    name: str | None
    status: str
    reason: str | None
    progress: BatchProgressInfo
    on_success: UUID | None  # its task
    on_complete: UUID | None
    created_at: datetime
    created_by: str | None
    close_by: datetime
    closed_at: datetime | None
    finished_at: datetime | None


class OpenedBatch(msgspec.Struct, kw_only=True):
    """The id and status of a batch: all that is told of a change to a key without the role
    `read`."""

    batch_id: UUID
    status: str
