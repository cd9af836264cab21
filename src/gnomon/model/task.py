"""A task, as it is handed in and as it is read back."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.model.lifecycle import Status
from gnomon.model.priority import Lane
from gnomon.model.retry import RetryPolicy
from gnomon.model.target import Target

DEFAULT_TENANT = "default"
DEFAULT_TIMEOUT = 30.0
LEAST_TIMEOUT = 0.001  # less means nothing, and much less is nothing where it is stored
INLINE_PAYLOAD_BYTES = 2048  # larger ones are kept apart, so that they never move with the row


class DeliveryMode(StrEnum):
    """What is promised about a task's calls."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"  # committed as begun before the call, and never called again
    EXACTLY_ONCE = "exactly_once"  # begun by consent of the row; see docs on delivery guarantees


class KeepPayload(StrEnum):
    """Whether a payload is kept once its task has ended. A dead letter has not, so it keeps its
    payload until it is resolved."""

    ALWAYS = "always"
    FAILED = "failed"  # not where the task completed, or was cancelled
    NEVER = "never"


class Resolution(StrEnum):
    """How a dead letter was put to rest."""

    ARCHIVED = "archived"
    DISCARDED = "discarded"


class TaskKey(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """What a task is found by."""

    tenant_id: str
    id: UUID


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A task about to be stored: every default filled in, every value checked."""

    tenant_id: str
    id: UUID
    task_type: str
    target: Target
    execute_at: datetime  # as asked for
    due_at: datetime  # when it will run: now, where `execute_at` has passed
    payload: bytes | None = None  # JSON, as it will be sent
    name: str | None = None
    lane: Lane = Lane.MEDIUM
    delivery: DeliveryMode = DeliveryMode.AT_LEAST_ONCE
    retry_policy: RetryPolicy = RetryPolicy()
    timeout_seconds: float = DEFAULT_TIMEOUT
    expires_at: datetime | None = None
    tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    created_by: str | None = None
    retry_of: UUID | None = None
    cron_job_id: UUID | None = None
    fire_at: datetime | None = None  # of a cron job's run
    gated: bool = False  # must not start without the consent of its cron job
    preemptible: bool = False  # may be given back for the sake of a CRITICAL task
    queue: str | None = None
    limit_keys: str | None = None  # see gnomon.limits.limiter
    keep_payload: KeepPayload = KeepPayload.ALWAYS


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it stands, live or finished."""

    task_id: UUID
    tenant_id: str
    name: str | None
    task_type: str
    status: Status
    priority: Lane
    target: Target
    payload: bytes | None  # JSON
    tags: tuple[str, ...]
    execute_at: datetime
    expires_at: datetime | None
    created_at: datetime
    created_by: str | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    next_retry_at: datetime | None
    last_error: str | None
    result: bytes | None  # JSON
    resolution: Resolution | None
    cancel_requested: bool
    cron_job_id: UUID | None
    retry_of: UUID | None
    delivery: DeliveryMode
    retry_policy: RetryPolicy
    timeout_seconds: float
    idempotency_key: str | None
    preemptible: bool
    queue: str | None
    keep_payload: KeepPayload
    payload_kept: bool  # False: it had a payload, which was removed when it ended


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One try at a task."""

    attempt: int
    outcome: str  # an OutcomeKind's label, or "running"
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    response_status: int | None
    response_body: str | None
    result: bytes | None
