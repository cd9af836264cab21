"""Workflows, and their runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from gnomon.client.types import Spec
from gnomon.model.targets.target import RequestTarget
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, KeepPayload

WorkflowRule = Literal["all_succeeded", "all_done", "any_failed", "any_succeeded"]
OnNodeFailure = Literal["fail", "skip", "continue"]


class WorkflowTaskSpec(Spec, kw_only=True):
    """A task of a workflow: what to call, and how. Its payload may have placeholders, such as
    `{{nodes.extract.result.path}}`."""

    task_type: str | None = None
    target: RequestTarget | None = None
    callback_url: str | None = None
    callback_method: str | None = None
    payload: Any = None
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


class WaitSpec(Spec, kw_only=True):
    """What a node waits for: a signal, or some seconds, or until a moment."""

    signal: str | None = None
    timeout_seconds: float | None = None
    timeout_result: Any = msgspec.UNSET
    seconds: float | None = None
    until: str | None = None


class WorkflowNodeSpec(WorkflowTaskSpec, kw_only=True):
    """A node: a task, the nodes that it comes after, and when it runs. `compensate` undoes it where
    the run is rolled back after it has completed; it may read the result of the node itself."""

    after: Sequence[str] = ()
    when: WorkflowRule | None = None
    condition: Mapping[str, Any] | None = msgspec.field(default=None, name="if")
    on_failure: OnNodeFailure | None = None
    compensate: WorkflowTaskSpec | None = None
    wait_for: WaitSpec | None = None
    map: Any = msgspec.UNSET


class WorkflowSpec(Spec, kw_only=True):
    """A workflow: its nodes by name, and what holds for its runs."""

    name: str | None = None
    nodes: Mapping[str, WorkflowNodeSpec]
    edges: Sequence[tuple[str, str]] = ()
    deadline_seconds: float | None = None
    fail_fast: bool = False


class WorkflowItem(msgspec.Struct, kw_only=True):
    """The newest version of a workflow, in a list."""

    name: str
    version: int
    created_at: datetime
    created_by: str | None


class WorkflowInfo(WorkflowItem, kw_only=True):
    """A version of a workflow. Secrets in the targets of its nodes are masked."""

    definition: dict[str, Any]


class StoredWorkflow(msgspec.Struct, kw_only=True):
    """The name and version of a workflow: all that is told of a change to a key without the role
    `read`."""

    name: str
    version: int


class WorkflowNodeInfo(msgspec.Struct, kw_only=True):
    """A node in a run."""

    node: str
    task_id: UUID
    status: str
    compensates: str | None  # the node that this one undoes, in a rollback
    borrowed: bool  # it has run in the run that this one retries
    after: list[str]
    waits_for: list[str]
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    waits_for_signal: str | None = None
    waits_until: datetime | None = None
    elements: int | None = None
    elements_ended: int | None = None
    spawned: int | None = None
    spawned_ended: int | None = None


class WorkflowRunItem(msgspec.Struct, kw_only=True):
    """A run of a workflow, in a list."""

    run_id: UUID
    workflow: str | None  # None: the run had a definition of its own
    version: int | None
    status: str
    reason: str | None  # why it was cancelled, or has failed
    created_at: datetime
    created_by: str | None
    finished_at: datetime | None
    deadline: datetime | None
    retry_of: UUID | None


class StartedRun(msgspec.Struct, kw_only=True):
    """The id and status of a run: all that is told of a change to a key without the role `read`."""

    run_id: UUID
    status: str


class WorkflowRunInfo(WorkflowRunItem, kw_only=True):
    """A run of a workflow, with its nodes."""

    input: Any = None
    nodes: list[WorkflowNodeInfo]


class NodeOutputInfo(msgspec.Struct, kw_only=True):
    """What became of a node, and its output: None where it has none, or that was too large."""

    node: str
    became: str  # succeeded, failed, skipped or cancelled
    result: Any
    too_large: bool
    finished_at: datetime


class SignalInfo(msgspec.Struct, kw_only=True):
    """A signal that was sent to a run: the first of its name."""

    run_id: UUID
    signal: str
    data: Any = None
    sent_at: datetime | None = None
    sent_by: str | None = None


class SentSignal(msgspec.Struct, kw_only=True):
    """The run and name of a signal: all that is told to a key without the role `read`."""

    run_id: UUID
    signal: str
