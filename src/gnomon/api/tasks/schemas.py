"""Queries, small requests and answers about tasks, as types that check and describe them."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.ids import ids_with_prefix
from gnomon.model.targets.target import RequestTarget
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane, Priority
from gnomon.model.tasks.retry import Backoff
from gnomon.model.tasks.task import DeliveryMode, KeepPayload, Resolution
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.usecases.checks.request_fields import (
    DEFAULT_LIMIT,
    Json,
    Limit,
    Moment,
    Queue,
    Strict,
    Tag,
    TaskType,
    WaitSeconds,
)
from gnomon.usecases.checks.request_moments import utc

# The first digits of a task's id, with or without hyphens.
IdPrefix = Annotated[str, msgspec.Meta(pattern="^([0-9A-Fa-f]-?){1,32}$", max_length=36)]


class CancelTask(Strict):
    """Options of a cancellation."""

    interrupt: bool = False


class Nothing(Strict):
    """An empty body."""


class DeadLetterFilter(Strict):
    """A filter of dead letters; without a field: all of them."""

    task_type: TaskType | None = None
    priority: Priority | None = None
    tag: Tag | None = None
    queue: Queue | None = None
    cron_job_id: UUID | None = None
    batch_id: UUID | None = None
    due_after: Moment | None = None
    due_before: Moment | None = None

    def chosen(self) -> TaskFilter:
        """The filter for the store. Raises InvalidTask, with the place."""
        return TaskFilter(
            task_type=self.task_type,
            priority=None if self.priority is None else Lane[self.priority],
            tag=self.tag,
            queue=self.queue,
            cron_job_id=self.cron_job_id,
            batch_id=self.batch_id,
            due_after=utc(self.due_after, "/due_after"),
            due_before=utc(self.due_before, "/due_before"),
        )


class TaskFilterQuery(DeadLetterFilter):
    """A filter of tasks; without a parameter: all of them."""

    status: Status | None = None
    id_prefix: IdPrefix | None = None

    def chosen(self) -> TaskFilter:
        return msgspec.structs.replace(super().chosen(), status=self.status, ids=self._ids())

    def _ids(self) -> tuple[UUID, UUID] | None:
        try:
            return None if self.id_prefix is None else ids_with_prefix(self.id_prefix)
        except ValueError as error:
            raise InvalidTask(str(error), "/id_prefix") from error


class TaskQuery(TaskFilterQuery):
    """The parameters of a list of tasks."""

    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class IncludedPart(StrEnum):
    """More about a task, with the task itself."""

    EXECUTIONS = "executions"
    FAILURE = "failure"  # the executions as well, but only of a task that ended without success


class GetTaskQuery(Strict):
    """The parameters of a read of one task."""

    wait: WaitSeconds = 0.0
    include: IncludedPart | None = None


class NoQuery(Strict):
    """No parameters."""


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
    target: RequestTarget
    priority: Priority
    delivery: DeliveryMode
    retry_policy: RetryPolicyView
    timeout_seconds: float
    tags: tuple[str, ...]
    queue: str | None
    preemptible: bool
    keep_payload: KeepPayload
    sla_seconds: float | None
    warn_after_seconds: float | None


class ProgressView(msgspec.Struct):
    """How far a running task is, by the word of its handler."""

    fraction: float
    message: str | None
    at: Moment


class TaskView(TemplateView):  # without kw_only: its own fields come first in the JSON
    """A task in its present state."""

    task_id: UUID
    name: str | None
    status: Status
    payload: Json
    execute_at: Moment
    expires_at: Moment | None
    created_at: Moment
    created_by: str | None
    started_at: Moment | None
    finished_at: Moment | None
    attempt: int
    next_retry_at: Moment | None
    last_error: str | None
    result: Json
    resolution: Resolution | None
    cancel_requested: bool
    cron_job_id: UUID | None
    retry_of: UUID | None
    idempotency_key: str | None
    payload_kept: bool
    correlation_id: str
    trace_id: str | None
    workflow_run_id: UUID | None
    node: str | None  # of that run, or what it is to its batch: on_success, on_complete
    batch_id: UUID | None
    progress: ProgressView | None


class NewTaskView(TaskView, kw_only=True):
    """A task that was submitted, with what its submitter should know, though it is accepted."""

    warnings: list[str] = []


class TaskPage(msgspec.Struct):
    """A page of tasks, newest first."""

    tasks: list[TaskView]
    next_cursor: str | None


class ExecutionOutcome(StrEnum):
    """How an execution ended, or that it is running."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    SNOOZED = "snoozed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"


class ExecutionQuery(Strict):
    """The parameters of a list of executions."""

    outcome: ExecutionOutcome | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class ExecutionView(msgspec.Struct, kw_only=True):
    """One execution of a task."""

    attempt: int
    outcome: ExecutionOutcome
    worker: str | None
    started_at: Moment | None
    finished_at: Moment | None
    error: str | None
    response_status: int | None
    response_body: str | None
    result: Json
    traceback: str | None


class TaskDetail(TaskView):
    """A task in its present state, and its last executions, oldest first, where they were asked
    for."""

    executions: list[ExecutionView] | msgspec.UnsetType = msgspec.UNSET


class ExecutionPage(msgspec.Struct):
    """A page of the executions of a task, oldest first."""

    executions: list[ExecutionView]
    next_cursor: str | None


class TransitionQuery(Strict):
    """The parameters of a list of transitions."""

    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class TransitionState(StrEnum):
    """The state of a task before or after a transition. WAITING is shown as SCHEDULED, READY or
    FAILED elsewhere, by the time; RESOLVED is a dead letter that was archived or discarded."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    BLOCKED = "BLOCKED"
    DEAD_LETTERED = "DEAD_LETTERED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    RESOLVED = "RESOLVED"


class TransitionView(msgspec.Struct, kw_only=True):
    """One change of a task's state. `from_state` null: the task was stored; `to_state` null: it was
    deleted."""

    number: int
    at: Moment
    from_state: TransitionState | None
    to_state: TransitionState | None
    attempt: int
    fence: int
    node: str | None


class TransitionPage(msgspec.Struct):
    """A page of the transitions of a task, oldest first."""

    transitions: list[TransitionView]
    next_cursor: str | None


class TaskReceipt(msgspec.Struct):
    """The id and status of a task: for tasks of a batch, and for callers who may not read."""

    task_id: UUID
    status: Status


class BatchView(msgspec.Struct):
    """The tasks of a batch, in the order of the request."""

    tasks: list[TaskReceipt]
    warnings: list[str] = []


class Health(msgspec.Struct):
    """The state of the process. `full`: it is ready, but there is no room for new work."""

    status: str
