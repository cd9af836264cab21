"""Tasks, executions and dead letters."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gnomon.client.types import Spec
from gnomon.model.insight.severity import Severity
from gnomon.model.targets.target import RequestTarget
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, KeepPayload, Resolution


class TemplateSpec(Spec, kw_only=True):
    """What to call, and how: the part that tasks and cron jobs have in common."""

    task_type: str
    target: RequestTarget | None = None
    callback_url: str | None = None
    callback_method: str | None = None
    priority: Priority | None = None
    delivery: DeliveryMode | None = None
    retry_policy: RetryPolicy | None = None
    timeout_seconds: float | None = None
    tags: Sequence[str] = ()
    queue: str | None = None
    preemptible: bool = False
    keep_payload: KeepPayload | None = None
    sla_seconds: float | None = None
    warn_after_seconds: float | None = None


class TaskSpec(TemplateSpec, kw_only=True):
    """A task to submit: it runs now, at a time, or after a delay."""

    name: str | None = None
    payload: Any = None
    execute_at: datetime | None = None
    delay_seconds: float | None = None
    jitter_seconds: float | None = None
    expires_at: datetime | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    batch_id: UUID | None = None  # an open batch, which it is put into
    retry_of: UUID | None = None
    on_success: "TaskSpec | None" = None  # runs when the task has succeeded
    on_failure: "TaskSpec | None" = None  # runs when its retries are spent


class TemplateEdit(Spec, kw_only=True):
    """Changes of what to call, and how. A field that is not given stays as it is."""

    target: RequestTarget | UnsetType = UNSET
    callback_url: str | UnsetType = UNSET
    callback_method: str | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    retry_policy: RetryPolicy | UnsetType = UNSET
    timeout_seconds: float | UnsetType = UNSET
    tags: Sequence[str] | UnsetType = UNSET
    queue: str | UnsetType | None = UNSET
    preemptible: bool | UnsetType = UNSET
    keep_payload: KeepPayload | UnsetType = UNSET
    sla_seconds: float | UnsetType | None = UNSET
    warn_after_seconds: float | UnsetType | None = UNSET


class TaskEdit(TemplateEdit, kw_only=True):
    """Changes of a waiting task. A field that is not given stays as it is."""

    name: str | UnsetType | None = UNSET
    payload: Any = UNSET
    execute_at: datetime | UnsetType = UNSET
    delay_seconds: float | UnsetType = UNSET
    expires_at: datetime | UnsetType | None = UNSET


class SubmittedTask(msgspec.Struct, kw_only=True):
    """The id and status of a task: all that is told of a change to a key without the role `read`,
    which gets this in place of a TaskInfo."""

    task_id: UUID
    status: Status


class TemplateInfo(msgspec.Struct, kw_only=True):
    """What is called, and how, with every default filled in. Secrets in the target are masked."""

    task_type: str
    target: RequestTarget
    priority: Priority
    delivery: DeliveryMode
    retry_policy: RetryPolicy
    timeout_seconds: float
    tags: tuple[str, ...]
    queue: str | None
    preemptible: bool
    keep_payload: KeepPayload
    sla_seconds: float | None = None  # None also of servers that do not know it
    warn_after_seconds: float | None = None


class ExecutionInfo(msgspec.Struct, kw_only=True):
    """One execution of a task."""

    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    response_status: int | None
    response_body: str | None
    result: Any
    traceback: str | None = None


class TransitionInfo(msgspec.Struct, kw_only=True):
    """One change of a task's state."""

    number: int
    at: datetime
    from_state: str | None  # None: the task was stored
    to_state: str | None  # None: the task was deleted
    attempt: int
    fence: int
    node: str | None


class ProgressInfo(msgspec.Struct, kw_only=True):
    """How far a running task is, by the word of its handler."""

    fraction: float  # 0 to 1
    message: str | None
    at: datetime


class TaskInfo(TemplateInfo, kw_only=True):
    """A task in its present state."""

    task_id: UUID
    status: Status
    name: str | None
    payload: Any
    execute_at: datetime
    expires_at: datetime | None
    created_at: datetime
    created_by: str | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    next_retry_at: datetime | None
    last_error: str | None
    result: Any
    resolution: Resolution | None
    cancel_requested: bool
    cron_job_id: UUID | None
    retry_of: UUID | None
    idempotency_key: str | None
    payload_kept: bool
    correlation_id: str | None = None  # as submitted, else the task's id
    trace_id: str | None = None  # of a task that belongs to a sampled trace
    workflow_run_id: UUID | None = None  # of a node of a workflow: its run
    node: str | None = None  # and its name there
    batch_id: UUID | None = None
    warnings: list[str] = []  # in the answer to a submission: what its submitter should know
    progress: ProgressInfo | None = None  # of one that runs; lists do not have it
    executions: list[ExecutionInfo] | None = None  # the last ones, where they were asked for


class CountInfo(msgspec.Struct, kw_only=True):
    """A number; capped: there are so many at the least, and the rest was not counted."""

    count: int
    capped: bool


class LaneLoadInfo(msgspec.Struct, kw_only=True):
    """Tasks of a lane that are due and that run, and how long the first of the due has waited."""

    priority: Priority
    ready: CountInfo
    running: CountInfo
    oldest_ready_seconds: float | None


class TypeLoadInfo(msgspec.Struct, kw_only=True):
    """The same of a task type."""

    task_type: str
    ready: CountInfo
    running: CountInfo
    oldest_ready_seconds: float | None


class QueueLoadInfo(msgspec.Struct, kw_only=True):
    """The same of a queue; None: of tasks without one."""

    queue: str | None
    ready: CountInfo
    running: CountInfo
    oldest_ready_seconds: float | None


class TaskLabelsInfo(msgspec.Struct, kw_only=True):
    """Task types, tags and queues of the newest tasks, the commonest first."""

    task_types: list[str]
    tags: list[str]
    queues: list[str]


class TaskStatsInfo(msgspec.Struct, kw_only=True):
    """Tasks by status, and what is due and running by lane, and by the busiest task types and
    queues."""

    statuses: dict[Status, CountInfo]
    lanes: list[LaneLoadInfo]
    task_types: list[TypeLoadInfo]
    queues: list[QueueLoadInfo]


class HoldInfo(msgspec.Struct, kw_only=True):
    """One thing that keeps a task from running: `limiter`, `breaker`, ... and its name."""

    kind: str
    name: str


class ExplanationInfo(msgspec.Struct, kw_only=True):
    """Why a task is not running, or how it ended: a sentence, the facts behind it, what would help,
    and what holds the task up."""

    summary: str
    facts: list[str]
    remedies: list[str]
    held_by: list[HoldInfo]
    task: TaskInfo


class RelatedTaskInfo(msgspec.Struct, kw_only=True):
    """A task that belongs to another one: its `original`, `previous_run` or `next_run`."""

    relation: str
    task_id: UUID
    status: str
    execute_at: datetime


class RelatedTasksInfo(msgspec.Struct, kw_only=True):
    """The tasks that belong to one."""

    tasks: list[RelatedTaskInfo]


class EventInfo(msgspec.Struct, kw_only=True):
    """An event; the members of `detail` depend on its kind."""

    event_id: UUID
    number: int | None  # its place in the order; an event that has grown gets another
    kind: str
    fingerprint: str  # the same for events that tell of the same thing
    severity: Severity
    at: datetime
    cron_job_id: UUID | None
    task_id: UUID | None
    detail: dict[str, Any]
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    note: str | None


class FollowedEvent(msgspec.Struct, kw_only=True):
    """An event of the stream, a CloudEvent. One that has grown is told again: it has the same
    `eventid`, and another `id` and `number`."""

    id: str
    type: str  # `gnomon.` and the kind
    source: str  # `/tenants/<id>` or `/installation`
    time: datetime
    subject: str | None = None  # the task, cron job or task type
    eventid: UUID
    number: str
    severity: Severity
    fingerprint: str
    data: dict[str, Any]


class StreamedTransitionInfo(TransitionInfo, kw_only=True):
    """One change of a task's state, with its task."""

    task_id: UUID
    task_type: str


class FollowedTransition(msgspec.Struct, kw_only=True):
    """A transition of the stream, a CloudEvent."""

    id: str  # the task and the number
    type: str
    source: str  # `/tenants/<id>`
    subject: str  # the task
    time: datetime
    data: StreamedTransitionInfo


class EventReceiptInfo(msgspec.Struct, kw_only=True):
    """An event that was acknowledged by a key that may not read."""

    event_id: UUID
