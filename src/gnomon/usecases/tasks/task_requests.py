"""Requests that submit and change tasks."""

from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.model.targets.target import RequestTarget
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, KeepPayload
from gnomon.usecases.checks.request_fields import (
    CorrelationId,
    Delay,
    ExpiresAfter,
    Jitter,
    Json,
    Key,
    Moment,
    Name,
    Queue,
    Sla,
    Strict,
    Tags,
    TaskType,
    Timeout,
    WarnAfter,
)

MOST_TASKS_A_BATCH = 10_000


class TemplateBody(Strict):
    """The fields of a task template, in the body that submits a task or declares a cron job. One
    that is left out is as the task type says."""

    task_type: TaskType
    target: RequestTarget | None = None
    callback_url: str | None = None
    callback_method: str | None = None
    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    delivery: DeliveryMode | msgspec.UnsetType = msgspec.UNSET
    retry_policy: RetryPolicy | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: Timeout | msgspec.UnsetType = msgspec.UNSET
    tags: Tags | msgspec.UnsetType = msgspec.UNSET
    queue: Queue | msgspec.UnsetType | None = msgspec.UNSET
    preemptible: bool | msgspec.UnsetType = msgspec.UNSET
    keep_payload: KeepPayload | msgspec.UnsetType = msgspec.UNSET
    sla_seconds: Sla | msgspec.UnsetType | None = msgspec.UNSET
    warn_after_seconds: WarnAfter | msgspec.UnsetType | None = msgspec.UNSET


class TemplatePatch(Strict):
    """The fields of a task template that can be changed. One that is left out stays as it is."""

    target: RequestTarget | msgspec.UnsetType = msgspec.UNSET
    callback_url: str | msgspec.UnsetType = msgspec.UNSET
    callback_method: str | msgspec.UnsetType = msgspec.UNSET
    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    retry_policy: RetryPolicy | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: Timeout | msgspec.UnsetType = msgspec.UNSET
    tags: Tags | msgspec.UnsetType = msgspec.UNSET
    queue: Queue | msgspec.UnsetType | None = msgspec.UNSET
    preemptible: bool | msgspec.UnsetType = msgspec.UNSET
    keep_payload: KeepPayload | msgspec.UnsetType = msgspec.UNSET
    sla_seconds: Sla | msgspec.UnsetType | None = msgspec.UNSET
    warn_after_seconds: WarnAfter | msgspec.UnsetType | None = msgspec.UNSET


class TaskTypeDefaults(Strict):
    """What tasks of the type have where their submission says nothing; else it is built in."""

    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    delivery: DeliveryMode | msgspec.UnsetType = msgspec.UNSET
    retry_policy: RetryPolicy | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: Timeout | msgspec.UnsetType = msgspec.UNSET
    expires_after_seconds: ExpiresAfter | msgspec.UnsetType = msgspec.UNSET
    jitter_seconds: Jitter | msgspec.UnsetType = msgspec.UNSET
    tags: Tags | msgspec.UnsetType = msgspec.UNSET
    queue: Queue | msgspec.UnsetType = msgspec.UNSET
    preemptible: bool | msgspec.UnsetType = msgspec.UNSET
    keep_payload: KeepPayload | msgspec.UnsetType = msgspec.UNSET
    sla_seconds: Sla | msgspec.UnsetType = msgspec.UNSET
    warn_after_seconds: WarnAfter | msgspec.UnsetType = msgspec.UNSET
    log_transitions: bool | msgspec.UnsetType = msgspec.UNSET


class SubmitTask(TemplateBody):
    """A task to be run: now, at a time, or after a delay."""

    name: Name | None = None
    payload: Json | msgspec.UnsetType = msgspec.UNSET
    execute_at: Moment | None = None
    delay_seconds: Delay | None = None
    jitter_seconds: Jitter | msgspec.UnsetType = msgspec.UNSET
    expires_at: Moment | msgspec.UnsetType | None = msgspec.UNSET
    idempotency_key: Key | None = None
    correlation_id: CorrelationId | None = None
    batch_id: UUID | None = None  # an open batch, which it is put into
    retry_of: UUID | None = None  # the task that it repeats, as it was or with changes


class SubmitWithCallbacks(SubmitTask):
    """A task to be run, and what follows its success or its failure: tasks whose payload may read
    `{{nodes.task.result}}`."""

    on_success: SubmitTask | None = None
    on_failure: SubmitTask | None = None

    @property
    def has_callbacks(self) -> bool:
        return self.on_success is not None or self.on_failure is not None


class SubmitBatch(Strict):
    """Tasks that are stored together, all or none; with their callbacks at most as many."""

    tasks: Annotated[
        list[SubmitWithCallbacks], msgspec.Meta(min_length=1, max_length=MOST_TASKS_A_BATCH)
    ]
    correlation_id: CorrelationId | None = None  # of those that have none of their own


class PatchTask(TemplatePatch):
    """Changes of a waiting task. A field that is left out stays as it is."""

    name: Name | msgspec.UnsetType | None = msgspec.UNSET
    payload: Json | msgspec.UnsetType = msgspec.UNSET
    execute_at: Moment | msgspec.UnsetType = msgspec.UNSET
    delay_seconds: Delay | msgspec.UnsetType = msgspec.UNSET
    expires_at: Moment | msgspec.UnsetType | None = msgspec.UNSET
