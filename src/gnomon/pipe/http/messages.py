"""The messages between a gateway and its remote workers: the worker protocol, as JSON.

`docs/reference/worker-protocol.md` has their JSON Schemas. Requests refuse unknown fields; a worker
ignores those of answers. Those that there are thousands of are not tracked by the garbage collector
(`gc=False`): none can be part of a cycle.
"""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from gnomon.workflow.spawning import MOST_SPAWNS

LONGEST_POLL = 20.0  # seconds: proxies cut requests off that wait for 30 or 60
MOST_SLOTS = 10_000
MOST_HANDLERS = 1_000
MOST_QUEUES = 100
MOST_LABELS = 32
MOST_REPORTS = 1_000
MOST_HELD = 20_000
MOST_BODY_BYTES = 8 * 1024 * 1024
MOST_RETRY_SECONDS = 31_536_000.0

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Fence = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Seconds = Annotated[float, Meta(ge=0.0, le=MOST_RETRY_SECONDS)]
WorkerOutcome = Literal["succeeded", "failed", "timed_out", "cancelled", "snoozed", "released"]
StopReason = Literal["cancelled", "preempted", "lost"]
Command = Literal["drain"]


class SessionOpening(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker is: the task types that it handles, and how many tasks it runs at once."""

    name: Name
    handlers: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_HANDLERS)]
    slots: Annotated[int, Meta(ge=1, le=MOST_SLOTS)]
    queues: Annotated[tuple[Name, ...], Meta(max_length=MOST_QUEUES)] | None = None
    labels: (
        Annotated[dict[Name, Annotated[str, Meta(max_length=200)]], Meta(max_length=MOST_LABELS)]
        | None
    ) = None
    client: Name | None = None


class SessionOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and the secret that its worker proves itself by."""

    session_id: UUID
    secret: str
    tenant_id: str
    lease_seconds: float
    beat_seconds: float
    poll_seconds: float
    epoch: str


class TaskClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, cache_hash=True):
    """One claim of one task."""

    task_id: UUID
    fence: Fence


class WorkerReport(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """What became of a delivery; `released`: it was not started."""

    task_id: UUID
    fence: Fence
    outcome: WorkerOutcome
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # any JSON
    error: str | None = None
    traceback: str | None = None
    retryable: bool = True
    retry_after_seconds: Seconds | None = None
    # Tasks that a node of a workflow run adds to it, if it has succeeded; each as in POST /tasks.
    spawns: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=MOST_SPAWNS)] = ()


class WorkerProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far an execution has come."""

    task_id: UUID
    fence: Fence
    fraction: Annotated[float, Meta(ge=0.0, le=1.0)]
    message: str | None = None


class Poll(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker has to say, and how much more it can take."""

    sequence: Annotated[int, Meta(ge=0, le=(1 << 53))]
    slots: Annotated[int, Meta(ge=0, le=MOST_SLOTS)]
    wait_seconds: Annotated[float, Meta(ge=0.0, le=LONGEST_POLL)] = LONGEST_POLL
    epoch: Annotated[str, Meta(max_length=64)] | None = None
    held: Annotated[tuple[TaskClaim, ...], Meta(max_length=MOST_HELD)] = ()
    reports: Annotated[tuple[WorkerReport, ...], Meta(max_length=MOST_REPORTS)] = ()
    begin: Annotated[tuple[TaskClaim, ...], Meta(max_length=MOST_REPORTS)] = ()
    progress: Annotated[tuple[WorkerProgress, ...], Meta(max_length=MOST_REPORTS)] = ()


class DeliveredTask(msgspec.Struct, frozen=True, gc=False):
    """A claimed task on its way to a worker: all that an execution needs."""

    task_id: UUID
    fence: int
    tenant_id: str
    task_type: str
    function: str
    attempt: int
    retries_left: int
    payload: msgspec.Raw
    timeout_seconds: float
    start_within_seconds: float
    asks: bool
    delivery: str
    priority: str
    queue: str | None
    idempotency_key: str | None
    correlation_id: str
    scheduled_for: datetime
    recurring: bool
    suspect: bool
    traceparent: str | None = None
    workflow_node: str | None = None  # of the run that it is in: it may spawn


class ReportReceipt(msgspec.Struct, frozen=True, gc=False):
    """A report is written; or its claim was stale, and nothing was."""

    task_id: UUID
    fence: int
    accepted: bool


class StartGrant(msgspec.Struct, frozen=True):
    """Whether a delivery that asks may be started."""

    task_id: UUID
    fence: int
    granted: bool


class StopOrder(msgspec.Struct, frozen=True):
    """An execution that is to end now."""

    task_id: UUID
    fence: int
    reason: StopReason


class PollAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway has to say to a worker."""

    sequence: int
    epoch: str
    deliveries: list[DeliveredTask] = []
    acknowledged: list[ReportReceipt] = []
    begun: list[StartGrant] = []
    cancel: list[StopOrder] = []
    command: Command | None = None


class BeatAnswer(msgspec.Struct, frozen=True):
    """The lease is good for so long from now on."""

    lease_seconds: Annotated[float, Meta(gt=0.0)]
