"""Values of the store of workflows."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.tasks.task import Submission
from gnomon.workflow.graph import Becomes, Graph, GraphNode, OnFailure, When
from gnomon.workflow.run import WorkflowNodeKind, WorkflowRun, WorkflowRunNode

RULE_CODES = {When.ALL_SUCCEEDED: 0, When.ALL_DONE: 1, When.ANY_FAILED: 2, When.ANY_SUCCEEDED: 3}
FAILURE_CODES = {OnFailure.FAIL: 0, OnFailure.SKIP: 1, OnFailure.CONTINUE: 2}


class NewNode(msgspec.Struct, frozen=True):
    """A node of a run about to be stored: its place in the graph, and its task."""

    name: str
    node: GraphNode
    task: Submission
    template: bytes | None = None  # JSON of a NodeTemplate, of what its turn decides
    kind: WorkflowNodeKind = WorkflowNodeKind.TASK

    @property
    def is_blocked(self) -> bool:
        return bool(self.node.after) or self.template is not None


class NewCompensation(msgspec.Struct, frozen=True):
    """What undoes a node, where the run is rolled back after it has completed."""

    node: str
    task: Submission
    template: bytes | None = None  # as of a NewNode


class NewWorkflowRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run about to be stored, with every default filled in and every value checked."""

    tenant_id: str
    id: UUID
    nodes: Sequence[NewNode]
    input: bytes | None  # JSON
    created_at: datetime
    created_by: str | None
    deadline: datetime | None = None
    fail_fast: bool = False
    workflow: str | None = None
    version: int | None = None
    definition: bytes | None = None  # JSON, of a run that is of no workflow
    retry_of: UUID | None = None
    cron_job_id: UUID | None = None  # whose run it is; that has the same id
    compensations: Sequence[NewCompensation] = ()
    borrowed: Graph = {}  # nodes of `retry_of` that lend what became of them


MOST_WORKFLOWS = 200  # of a tenant
MOST_VERSIONS = 100  # of a workflow


class WorkflowVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a workflow."""

    name: str
    version: int
    definition: bytes  # JSON, with its secrets; empty in lists
    created_at: datetime
    created_by: str | None


class NodeOutput(msgspec.Struct, frozen=True):
    """What became of a node, and its output."""

    node: str
    became: Becomes
    output: bytes | None  # JSON
    too_large: bool
    finished_at: datetime


class RunSignal(msgspec.Struct, frozen=True):
    """A signal that was sent to a run."""

    name: str
    data: bytes | None  # JSON
    sent_at: datetime
    sent_by: str | None


class ReadWorkflowRun(msgspec.Struct, frozen=True):
    """A run with its nodes, in the order of its definition."""

    run: WorkflowRun
    nodes: Sequence[WorkflowRunNode]


class WorkflowRunPage(msgspec.Struct, frozen=True):
    """Runs, newest first; `more`: from which on older ones follow."""

    runs: Sequence[WorkflowRun]
    more: UUID | None
