"""A task: its template, as it is submitted, changed and read back.

A new field that tasks share with cron jobs is declared in TaskTemplate; CONTRIBUTING lists the
other files.
"""

from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.targets.target import Target
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.origin import Origin, correlation_id_of, trace_id_of
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy

DEFAULT_TENANT = "default"
DEFAULT_TIMEOUT = 30.0
LEAST_TIMEOUT = 0.001  # less means nothing, and much less is nothing where it is stored
INLINE_PAYLOAD_BYTES = 2048  # larger ones are kept apart, so that they never move with the row

_DEFAULT_POLICY = RetryPolicy()
_NO_RETRIES = RetryPolicy(max_retries=0)


class DeliveryMode(StrEnum):
    """The promise about how often a task's target is called."""

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
    """How a dead letter was resolved."""

    ARCHIVED = "archived"
    DISCARDED = "discarded"


class Resolved(msgspec.Struct, frozen=True):
    """When a dead letter was resolved, who did it, and what they noted."""

    at: datetime
    by: str | None = None
    note: str | None = None


class TaskKey(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """The key of a task: its tenant and its id."""

    tenant_id: str
    id: UUID


class TaskTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that a task has in common with the cron job that makes it."""

    task_type: str
    target: Target
    priority: Lane = Lane.MEDIUM
    delivery: DeliveryMode = DeliveryMode.AT_LEAST_ONCE
    retry_policy: RetryPolicy = _DEFAULT_POLICY
    timeout_seconds: float = DEFAULT_TIMEOUT
    tags: tuple[str, ...] = ()
    queue: str | None = None
    preemptible: bool = False  # may be ended for the sake of a CRITICAL task
    keep_payload: KeepPayload = KeepPayload.ALWAYS
    sla_seconds: float | None = None  # by when, after it is due, it must have started
    warn_after_seconds: float | None = None  # an execution that runs for so long is slow

    def check_delivery(self) -> None:
        """Raises InvalidTask where the delivery mode forbids another field."""
        check_mode(self.delivery, self.retry_policy, preemptible=self.preemptible)


def template_fields(template: TaskTemplate) -> dict[str, Any]:
    """The fields of a template by name, to make another kind of template of them."""
    return dict(zip(TEMPLATE_FIELDS, _template_values(template), strict=True))


TEMPLATE_FIELDS = TaskTemplate.__struct_fields__
_template_values = attrgetter(*TEMPLATE_FIELDS)


class Submission(TaskTemplate, frozen=True, kw_only=True):
    """A task about to be stored: every default filled in, every value checked."""

    tenant_id: str
    id: UUID
    execute_at: datetime  # as asked for
    due_at: datetime  # when it will run: now, where `execute_at` has passed
    payload: bytes | None = None  # JSON, as it will be sent
    name: str | None = None
    expires_at: datetime | None = None
    idempotency_key: str | None = None
    created_by: str | None = None
    retry_of: UUID | None = None
    cron_job_id: UUID | None = None
    fire_at: datetime | None = None  # of a cron job's run
    gated: bool = False  # must not start without the consent of its cron job
    limit_keys: str | None = None  # see gnomon.limits.limiter
    origin: Origin | None = None
    batch_id: UUID | None = None  # that it is a member of
    log_transitions: bool = False  # of a cron job's run, the store finds it out

    @property
    def correlation_id(self) -> str:
        return correlation_id_of(self.origin, self.id)

    @property
    def trace_id(self) -> str | None:
        return trace_id_of(self.origin)


class TaskPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a waiting task. UNSET leaves a field as it is."""

    name: str | msgspec.UnsetType | None = msgspec.UNSET
    payload: bytes | msgspec.UnsetType | None = msgspec.UNSET
    execute_at: datetime | msgspec.UnsetType = msgspec.UNSET
    expires_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    target: Target | msgspec.UnsetType = msgspec.UNSET
    priority: Lane | msgspec.UnsetType = msgspec.UNSET
    retry_policy: RetryPolicy | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: float | msgspec.UnsetType = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType | None = msgspec.UNSET
    preemptible: bool | msgspec.UnsetType = msgspec.UNSET
    keep_payload: KeepPayload | msgspec.UnsetType = msgspec.UNSET
    sla_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    warn_after_seconds: float | msgspec.UnsetType | None = msgspec.UNSET

    def check_delivery(self, mode: DeliveryMode) -> None:
        """Raises InvalidTask where the task's delivery mode forbids a change."""
        policy = None if self.retry_policy is msgspec.UNSET else self.retry_policy
        check_mode(mode, policy, preemptible=self.preemptible is True)


class ReportedProgress(msgspec.Struct, frozen=True):
    """How far a running task is, by the word of its handler."""

    fraction: float  # 0 to 1
    message: str | None
    at: datetime


class Task(TaskTemplate, frozen=True, kw_only=True):
    """A task as it stands, live or finished."""

    task_id: UUID
    tenant_id: str
    name: str | None
    status: Status
    payload: bytes | None  # JSON
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
    idempotency_key: str | None
    payload_kept: bool  # False: it had a payload, which was removed when it ended
    origin: Origin | None = None
    workflow_run_id: UUID | None = None
    workflow_node: str | None = None  # its name in that run, or in its batch, of a callback
    batch_id: UUID | None = None
    progress: ReportedProgress | None = None  # of one that runs; read of single tasks only
    # Of a dead letter: of its error, and once it is resolved. Not read of other lists.
    fingerprint: int | None = None
    resolved: Resolved | None = None

    @property
    def correlation_id(self) -> str:
        return correlation_id_of(self.origin, self.task_id)

    @property
    def trace_id(self) -> str | None:
        return trace_id_of(self.origin)


def default_policy(mode: DeliveryMode) -> RetryPolicy:
    """The retry policy of a task that names none."""
    return _NO_RETRIES if mode is DeliveryMode.AT_MOST_ONCE else _DEFAULT_POLICY


def check_mode(mode: DeliveryMode, policy: RetryPolicy | None, *, preemptible: bool) -> None:
    """Raises InvalidTask, with the place, where a delivery mode forbids another field."""
    if mode is not DeliveryMode.AT_MOST_ONCE:
        return
    if policy is not None and policy.max_retries > 0:
        detail = "must be 0: a task that is delivered at_most_once is never tried again"
        raise InvalidTask(detail, "/retry_policy/max_retries")
    if preemptible:
        detail = "a task that is delivered at_most_once cannot be preempted once it has started"
        raise InvalidTask(detail, "/preemptible")
