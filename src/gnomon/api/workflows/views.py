"""Runs of workflows as the API shows them."""

from uuid import UUID

import msgspec

from gnomon.api.tasks.views import raw
from gnomon.model.tasks.lifecycle import Status
from gnomon.store.ports.work.workflows import NodeOutput, ReadWorkflowRun
from gnomon.usecases.checks.request_fields import Json, Moment
from gnomon.workflow.graph import Becomes
from gnomon.workflow.run import WorkflowRun, WorkflowRunNode, WorkflowRunStatus

SKIPPED = "SKIPPED"


class WorkflowNodeView(msgspec.Struct, kw_only=True):
    """A node of a run: its task, what became of it, and what it waits for."""

    node: str
    task_id: UUID
    status: str  # of the task; SKIPPED: its turn will never come
    compensates: str | None  # the node that this one undoes, in a rollback
    borrowed: bool  # it has run in the run that this one retries
    after: list[str]
    waits_for: list[str]
    attempt: int
    started_at: Moment | None
    finished_at: Moment | None
    error: str | None
    waits_for_signal: str | None = None
    waits_until: Moment | None = None  # for a signal, or for the time itself
    elements: int | None = None  # of a mapped node, once its list is known
    elements_ended: int | None = None
    spawned: int | None = None  # of a node that has spawned others: so many
    spawned_ended: int | None = None


class WorkflowRunSummary(msgspec.Struct, kw_only=True):
    """A run, without its nodes."""

    run_id: UUID
    workflow: str | None
    version: int | None
    status: WorkflowRunStatus
    reason: str | None
    created_at: Moment
    created_by: str | None
    finished_at: Moment | None
    deadline: Moment | None
    retry_of: UUID | None


class WorkflowRunView(WorkflowRunSummary, kw_only=True):
    """A run with its nodes, in the order of the definition."""

    input: Json
    nodes: list[WorkflowNodeView]


class WorkflowRunReceipt(msgspec.Struct):
    """The answer to those who may not read."""

    run_id: UUID
    status: WorkflowRunStatus


class WorkflowRunList(msgspec.Struct):
    """A page of runs, newest first."""

    runs: list[WorkflowRunSummary]
    next_cursor: str | None


class NodeOutputView(msgspec.Struct, kw_only=True):
    """What became of a node, and its output: null where it has none, or that was too large."""

    node: str
    became: Becomes
    result: Json
    too_large: bool
    finished_at: Moment


def output_view(found: NodeOutput) -> NodeOutputView:
    return NodeOutputView(
        node=found.node,
        became=found.became,
        result=raw(found.output),
        too_large=found.too_large,
        finished_at=found.finished_at,
    )


def run_summary(run: WorkflowRun) -> WorkflowRunSummary:
    return WorkflowRunSummary(
        run_id=run.run_id,
        workflow=run.workflow,
        version=run.version,
        status=run.status,
        reason=run.reason,
        created_at=run.created_at,
        created_by=run.created_by,
        finished_at=run.finished_at,
        deadline=run.deadline,
        retry_of=run.retry_of,
    )


def run_view(found: ReadWorkflowRun) -> WorkflowRunView:
    return WorkflowRunView(
        **msgspec.structs.asdict(run_summary(found.run)),
        input=raw(found.run.input),
        nodes=[_node_view(each) for each in found.nodes],
    )


def _node_view(node: WorkflowRunNode) -> WorkflowNodeView:
    return WorkflowNodeView(
        node=node.node,
        task_id=node.task_id,
        status=_status(node),
        compensates=node.compensates,
        borrowed=node.borrowed,
        after=list(node.after),
        waits_for=list(node.waits_for),
        attempt=node.attempt or 0,
        started_at=node.started_at,
        finished_at=node.finished_at,
        error=node.error,
        waits_for_signal=node.signal,
        waits_until=node.waits_until,
        elements=node.elements,
        elements_ended=node.elements_ended,
        spawned=node.spawned,
        spawned_ended=node.spawned_ended,
    )


def _status(node: WorkflowRunNode) -> str:
    if node.became is Becomes.SKIPPED and node.status is not Status.DEAD_LETTERED:
        return SKIPPED
    if node.status is not None:
        return node.status
    # Its task was deleted, or dropped with the archive.
    return _GONE.get(node.became, Status.CANCELLED) if node.became else Status.CANCELLED


_GONE: dict[Becomes, Status] = {
    Becomes.SUCCEEDED: Status.COMPLETED,
    Becomes.FAILED: Status.DEAD_LETTERED,
    Becomes.CANCELLED: Status.CANCELLED,
}
