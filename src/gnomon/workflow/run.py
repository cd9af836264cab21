"""A run of a workflow, and its nodes, as they are read."""

from datetime import datetime
from enum import IntEnum, StrEnum
from uuid import UUID

import msgspec

from gnomon.model.tasks.lifecycle import Status
from gnomon.workflow.graph import Becomes


class WorkflowRunState(IntEnum):
    """The state of a run as it is stored: it has ended from SUCCEEDED on."""

    RUNNING = 0
    CANCELLING = 1
    ROLLING_BACK = 2
    SUCCEEDED = 10
    FAILED = 11
    CANCELLED = 12
    ROLLED_BACK = 13

    @property
    def is_final(self) -> bool:
        return self >= WorkflowRunState.SUCCEEDED


class WorkflowNodeKind(IntEnum):
    """The kind of a node as it is stored."""

    TASK = 0
    WAIT = 1
    MAPPED = 2
    ELEMENT = 3  # of a mapped one
    SPAWNED = 4


class WorkflowRunStatus(StrEnum):
    """The status of a run as the API shows it."""

    RUNNING = "RUNNING"
    FAILED = "FAILED"  # a dead letter holds it up; or it has ended, and a node had failed
    PAUSED = "PAUSED"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    CANCELLED = "CANCELLED"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"


class WorkflowRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, without its nodes."""

    run_id: UUID
    tenant_id: str
    workflow: str | None
    version: int | None
    state: WorkflowRunState
    paused: bool
    dead: bool  # a dead letter holds it up
    reason: str | None
    input: bytes | None  # JSON
    deadline: datetime | None
    created_at: datetime
    created_by: str | None
    finished_at: datetime | None
    retry_of: UUID | None
    rolls_back: bool  # nodes of it have compensations

    @property
    def status(self) -> WorkflowRunStatus:
        if self.state is WorkflowRunState.RUNNING:
            if self.paused:
                return WorkflowRunStatus.PAUSED
            return WorkflowRunStatus.FAILED if self.dead else WorkflowRunStatus.RUNNING
        return WorkflowRunStatus[self.state.name]

    @property
    def stands(self) -> bool:
        """Whether it does not go on by itself: it has ended, or a dead letter holds it up."""
        return self.state.is_final or (self.state is WorkflowRunState.RUNNING and self.dead)


class WorkflowRunNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a run: its task, and what became of it."""

    node: str
    task_id: UUID
    status: Status | None  # of its task; None: the task is gone
    became: Becomes | None
    after: tuple[str, ...]
    compensates: str | None
    borrowed: bool  # what became of it is lent by the run that this one retries
    waits_for: tuple[str, ...]
    attempt: int | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    signal: str | None = None  # that it waits for now
    waits_until: datetime | None = None  # likewise
    elements: int | None = None  # of a mapped node, once its list is known
    elements_ended: int | None = None  # of these
    spawned: int | None = None  # of a node that has spawned others
    spawned_ended: int | None = None  # of these
