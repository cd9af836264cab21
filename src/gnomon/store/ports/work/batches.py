"""Values of the store of batches."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.tasks.task import Submission
from gnomon.workflow.batch import BatchOfTasks


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch about to be stored, with its callbacks."""

    tenant_id: str
    id: UUID
    name: str | None
    deadline: datetime
    created_at: datetime
    created_by: str | None
    on_success: Submission | None = None
    on_complete: Submission | None = None


class BatchPage(msgspec.Struct, frozen=True):
    """Batches, newest first; `more`: from which on older ones follow."""

    batches: Sequence[BatchOfTasks]
    more: UUID | None
