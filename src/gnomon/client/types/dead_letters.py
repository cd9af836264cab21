"""Dead letters, and groups of them."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.client.types.tasks import TaskInfo


class DeadLetterInfo(TaskInfo, kw_only=True):
    """A dead letter; once it is resolved, when it was, by whom, and their note."""

    fingerprint: str | None = None
    resolved_at: datetime | None = None
    resolved_by: str | None = None
    note: str | None = None


class DeadGroupInfo(msgspec.Struct, kw_only=True):
    """Unresolved dead letters of one task type and one error. `count_capped`: there are more than
    were counted."""

    fingerprint: str
    task_type: str
    error: str
    count: int
    count_capped: bool
    first_seen: datetime
    last_seen: datetime
    example: UUID
    hours: list[int]
