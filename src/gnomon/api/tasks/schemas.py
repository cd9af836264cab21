"""The bodies of requests and answers, as types: they check what comes in and describe it too."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.model.lifecycle import Status
from gnomon.model.retry import Backoff, RetryPolicy
from gnomon.model.target import Target
from gnomon.model.task import DEFAULT_TIMEOUT, LEAST_TIMEOUT, DeliveryMode, KeepPayload, Resolution

LONGEST_TIMEOUT = 24 * 3600.0
LONGEST_DELAY = 175 * 365.25 * 24 * 3600.0
MOST_TASKS_A_BATCH = 10_000
DEFAULT_LIMIT = 50

TaskType = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Queue = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Tags = Annotated[tuple[Tag, ...], msgspec.Meta(max_length=32)]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Moment = Annotated[
    datetime, msgspec.Meta(tz=True, description="RFC 3339, with a zone: 2026-01-01T09:00:00Z")
]
Delay = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_DELAY)]
Timeout = Annotated[float, msgspec.Meta(ge=LEAST_TIMEOUT, le=LONGEST_TIMEOUT)]
Json = Annotated[msgspec.Raw, msgspec.Meta(description="Any JSON value")]


class Priority(StrEnum):
    """The lanes by their names."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A misspelt field is an error, never silently ignored."""


class TemplateBody(Strict):
    """The fields of a task template, in the body that submits a task or declares a cron job."""

    task_type: TaskType
    target: Target | None = None
    callback_url: str | None = None
    callback_method: str | None = None
    priority: Priority = Priority.MEDIUM
    delivery: DeliveryMode = DeliveryMode.AT_LEAST_ONCE
    retry_policy: RetryPolicy | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: Timeout = DEFAULT_TIMEOUT
    tags: Tags = ()
    queue: Queue | None = None
    preemptible: bool = False
    keep_payload: KeepPayload = KeepPayload.ALWAYS


class TemplatePatch(Strict):
    """The fields of a task template that can be changed. One that is left out stays as it is."""

    target: Target | msgspec.UnsetType = msgspec.UNSET
    callback_url: str | msgspec.UnsetType = msgspec.UNSET
    callback_method: str | msgspec.UnsetType = msgspec.UNSET
    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    retry_policy: RetryPolicy | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: Timeout | msgspec.UnsetType = msgspec.UNSET
    tags: Tags | msgspec.UnsetType = msgspec.UNSET
    queue: Queue | msgspec.UnsetType | None = msgspec.UNSET
    preemptible: bool | msgspec.UnsetType = msgspec.UNSET
    keep_payload: KeepPayload | msgspec.UnsetType = msgspec.UNSET


class SubmitTask(TemplateBody):
    """A task to be run: now, at a time, or after a delay."""

    name: Name | None = None
    payload: Json | msgspec.UnsetType = msgspec.UNSET
    execute_at: Moment | None = None
    delay_seconds: Delay | None = None
    expires_at: Moment | None = None
    idempotency_key: Key | None = None


class SubmitBatch(Strict):
    """Tasks that are stored all or none."""

    tasks: Annotated[list[SubmitTask], msgspec.Meta(min_length=1, max_length=MOST_TASKS_A_BATCH)]


class PatchTask(TemplatePatch):
    """What to change in a task that waits. A field that is left out stays as it is."""

    name: Name | msgspec.UnsetType | None = msgspec.UNSET
    payload: Json | msgspec.UnsetType = msgspec.UNSET
    execute_at: Moment | msgspec.UnsetType = msgspec.UNSET
    delay_seconds: Delay | msgspec.UnsetType = msgspec.UNSET
    expires_at: Moment | msgspec.UnsetType | None = msgspec.UNSET


class CancelTask(Strict):
    """How to cancel."""

    interrupt: bool = False


class Nothing(Strict):
    """No field is needed here."""


class DeadLetterFilter(Strict):
    """Which dead letters. Without a field: all."""

    task_type: TaskType | None = None
    priority: Priority | None = None
    tag: Tag | None = None
    queue: Queue | None = None
    cron_job_id: UUID | None = None
    due_after: Moment | None = None
    due_before: Moment | None = None


class PageQuery(DeadLetterFilter):
    """The parameters of a list of dead letters."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = DEFAULT_LIMIT
    cursor: str | None = None


class TaskQuery(PageQuery):
    """The parameters of a list of tasks."""

    status: Status | None = None


class NoQuery(Strict):
    """No parameter is known here."""


class RetryPolicyView(msgspec.Struct, frozen=True):
    """A retry policy with every value written out."""

    max_retries: int
    backoff: Backoff
    base_seconds: float
    max_seconds: float
    jitter: bool
    retry_client_errors: bool


class TemplateView(msgspec.Struct, kw_only=True):
    """The fields of a task template, as tasks and cron jobs show them."""

    task_type: str
    target: Target
    priority: Priority
    delivery: DeliveryMode
    retry_policy: RetryPolicyView
    timeout_seconds: float
    tags: tuple[str, ...]
    queue: str | None
    preemptible: bool
    keep_payload: KeepPayload


class TaskView(TemplateView):  # without kw_only: its own fields come first in the JSON
    """A task as it stands."""

    task_id: UUID
    name: str | None
    status: Status
    payload: Json
    execute_at: datetime
    expires_at: datetime | None
    created_at: datetime
    created_by: str | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    next_retry_at: datetime | None
    last_error: str | None
    result: Json
    resolution: Resolution | None
    cancel_requested: bool
    cron_job_id: UUID | None
    retry_of: UUID | None
    idempotency_key: str | None
    payload_kept: bool


class TaskPage(msgspec.Struct):
    """Newest first."""

    tasks: list[TaskView]
    next_cursor: str | None


class DeadLetterPage(msgspec.Struct):
    """Newest first."""

    dead_letters: list[TaskView]
    next_cursor: str | None


class ExecutionView(msgspec.Struct, kw_only=True):
    """One try at a task."""

    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    response_status: int | None
    response_body: str | None
    result: Json


class ExecutionPage(msgspec.Struct):
    """Oldest first."""

    executions: list[ExecutionView]
    next_cursor: str | None


class TaskReceipt(msgspec.Struct):
    """What is told of a task in a batch, and to those who may not read."""

    task_id: UUID
    status: Status


class BatchView(msgspec.Struct):
    """In the order of the request."""

    tasks: list[TaskReceipt]


class Health(msgspec.Struct):
    """The process answers. `full`: it is ready, but there is no room for new work."""

    status: str
