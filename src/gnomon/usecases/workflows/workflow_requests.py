"""Requests that define workflows and start runs of them."""

from typing import Annotated

import msgspec

from gnomon.usecases.checks.request_fields import LONGEST_DELAY, Json, Strict
from gnomon.usecases.tasks.task_requests import SubmitTask
from gnomon.usecases.workflows.node_waits import WaitFor
from gnomon.workflow.graph import MOST_EDGES, MOST_NODES, OnFailure, When

NodeName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")
]
# From, to. Of any length for the type checker: a tuple of two would be described by words of JSON
# Schema that generators of clients do not know.
NodeEdge = Annotated[tuple[NodeName, ...], msgspec.Meta(min_length=2, max_length=2)]
WorkflowName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$")
]
DeadlineSeconds = Annotated[float, msgspec.Meta(ge=0.001, le=LONGEST_DELAY)]


class WorkflowNodeBody(SubmitTask):
    """A node: a task, and what it waits for. Its task type is the node's name where it gives
    none."""

    task_type: Annotated[str, msgspec.Meta(max_length=200)] = ""
    after: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=MOST_NODES)] = ()
    when: When = When.ALL_SUCCEEDED
    on_failure: OnFailure = OnFailure.FAIL
    if_: Json | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="if")
    compensate: SubmitTask | None = None  # what undoes it, in a rollback
    wait_for: WaitFor | None = None
    map: Json | msgspec.UnsetType = msgspec.UNSET  # a list: one task for each of its elements


class WorkflowDefinition(Strict):
    """Nodes, and which of them wait for which."""

    nodes: Annotated[
        dict[NodeName, WorkflowNodeBody], msgspec.Meta(min_length=1, max_length=MOST_NODES)
    ]
    name: WorkflowName | None = None
    edges: Annotated[tuple[NodeEdge, ...], msgspec.Meta(max_length=MOST_EDGES)] = ()
    deadline_seconds: DeadlineSeconds | None = None
    fail_fast: bool = False


class StartAdHocRun(Strict):
    """A run of a definition that is not kept under a name."""

    definition: WorkflowDefinition
    input: Json | msgspec.UnsetType = msgspec.UNSET


class StartWorkflowRun(Strict):
    """A run of a workflow, of its newest version unless it says which."""

    input: Json | msgspec.UnsetType = msgspec.UNSET
    version: Annotated[int, msgspec.Meta(ge=1)] | None = None


class CancelWorkflowRun(Strict):
    """Options of cancelling a run."""

    interrupt: bool = False
    rollback: bool = False  # completed nodes are undone


class RetryWorkflowRun(Strict):
    """The nodes from which a new run begins: they and all below them run again. Without any: those
    that did not go well."""

    from_: Annotated[tuple[NodeName, ...], msgspec.Meta(min_length=1, max_length=1000)] | None = (
        msgspec.field(default=None, name="from")
    )


class RollBackWorkflowRun(Strict):
    """Options of rolling a run back."""

    interrupt: bool = False
