"""What travels between dispatcher and worker."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.retry import RetryPolicy
from gnomon.model.target import Target
from gnomon.model.task import TaskKey


class Delivery(msgspec.Struct, frozen=True):
    """A claimed task on its way to a slot: all that a try needs."""

    key: TaskKey
    fence: int
    incarnation: UUID
    attempt: int
    retries_left: int
    losses: int
    target: Target
    payload: bytes | None
    payload_size: int | None  # set where the payload is kept apart and must be fetched
    timeout_seconds: float
    retry_policy: RetryPolicy
    task_type: str
    execute_at: datetime
    idempotency_key: str | None
