"""Tasks that belong to another one."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.model.tasks.lifecycle import Status


class Relation(StrEnum):
    """What a task is to another one."""

    ORIGINAL = "original"  # which the other one repeats
    PREVIOUS_RUN = "previous_run"  # of the same cron job
    NEXT_RUN = "next_run"
    COPY = "copy"  # which repeats the other one


class RelatedTask(msgspec.Struct, frozen=True):
    """A task that belongs to another one."""

    relation: Relation
    task_id: UUID
    status: Status
    execute_at: datetime
