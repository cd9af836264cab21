"""Workflows and their runs."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.workflows import (
    NodeOutputInfo,
    SentSignal,
    SignalInfo,
    StartedRun,
    StoredWorkflow,
    WorkflowInfo,
    WorkflowItem,
    WorkflowRunInfo,
    WorkflowRunItem,
    WorkflowSpec,
)

ChangedRun: TypeAlias = WorkflowRunInfo | StartedRun

_WORKFLOWS = "/workflows"
_RUNS = "/workflow-runs"


def put_workflow(workflow: WorkflowSpec) -> Call[WorkflowInfo | StoredWorkflow]:
    """Stores a workflow: the next version of it, unless the newest says the same."""
    return Call(
        method="POST",
        path=_WORKFLOWS,
        body=workflow,
        answer=WorkflowInfo,
        receipt=StoredWorkflow,
    )


def list_workflows() -> Call[list[WorkflowItem]]:
    """Lists workflows by name, each with its newest version."""
    return Call(method="GET", path=_WORKFLOWS, answer=list[WorkflowItem], member="workflows")


def get_workflow(name: str, *, version: int | None = None) -> Call[WorkflowInfo]:
    """Reads a workflow, in its newest version or in another."""
    return Call(method="GET", path=_workflow(name), query={"version": version}, answer=WorkflowInfo)


def delete_workflow(name: str) -> Call[None]:
    """Removes a workflow with all its versions. Its runs go on."""
    return Call(method="DELETE", path=_workflow(name))


def start_workflow_run(
    name: str,
    *,
    input: Any = msgspec.UNSET,  # noqa: A002 - as the API has it
    version: int | None = None,
    idempotency_key: str | None = None,
) -> Call[ChangedRun]:
    """Starts a run of a workflow."""
    body: dict[str, Any] = {} if input is msgspec.UNSET else {"input": input}
    if version is not None:
        body["version"] = version
    return _changed(f"{_workflow(name)}/runs", body, idempotency_key)


def start_ad_hoc_run(
    definition: WorkflowSpec,
    *,
    input: Any = msgspec.UNSET,  # noqa: A002 - as the API has it
    idempotency_key: str | None = None,
) -> Call[ChangedRun]:
    """Starts a run of a definition that is not kept under a name."""
    body: dict[str, Any] = {"definition": definition}
    if input is not msgspec.UNSET:
        body["input"] = input
    return _changed(_RUNS, body, idempotency_key)


def list_workflow_runs(
    *,
    workflow: str | None = None,
    status: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[WorkflowRunItem]:
    """Lists runs, newest first."""
    return Listing(
        path=_RUNS,
        member="runs",
        item=WorkflowRunItem,
        query={"workflow": workflow, "status": status},
        limit=limit,
        cursor=cursor,
    )


def get_workflow_run(run_id: str | UUID, *, wait: float | None = None) -> Call[WorkflowRunInfo]:
    """Reads a run with its nodes; with `wait`, once it has ended or a dead letter holds it up, or
    after so many seconds."""
    return Call(method="GET", path=_run(run_id), query={"wait": wait}, answer=WorkflowRunInfo)


def cancel_workflow_run(
    run_id: str | UUID,
    *,
    interrupt: bool = False,
    rollback: bool = False,
    idempotency_key: str | None = None,
) -> Call[ChangedRun]:
    """Cancels a run: what has not started never does; with `interrupt`, running tasks are
    interrupted; with `rollback`, what had completed is undone."""
    body = {"interrupt": interrupt, "rollback": rollback}
    return _changed(f"{_run(run_id)}/cancel", body, idempotency_key)


def roll_back_workflow_run(
    run_id: str | UUID,
    *,
    interrupt: bool = False,
    idempotency_key: str | None = None,
) -> Call[ChangedRun]:
    """Undoes the completed nodes of a run, the last ones first, by their compensations; also of one
    that has ended."""
    return _changed(f"{_run(run_id)}/rollback", {"interrupt": interrupt}, idempotency_key)


def retry_workflow_run(
    run_id: str | UUID,
    *,
    nodes: Sequence[str] = (),
    idempotency_key: str | None = None,
) -> Call[ChangedRun]:
    """Starts a new run in which these nodes of a run that has ended, and all below them, run again;
    without any, those that did not go well. The others lend their outputs."""
    body = {"from": list(nodes)} if nodes else {}
    return _changed(f"{_run(run_id)}/retry", body, idempotency_key)


def pause_workflow_run(
    run_id: str | UUID, *, idempotency_key: str | None = None
) -> Call[ChangedRun]:
    """Pauses a run: nothing of it starts."""
    return _changed(f"{_run(run_id)}/pause", key=idempotency_key)


def resume_workflow_run(
    run_id: str | UUID, *, idempotency_key: str | None = None
) -> Call[ChangedRun]:
    """Resumes a paused run."""
    return _changed(f"{_run(run_id)}/resume", key=idempotency_key)


def signal_workflow_run(
    run_id: str | UUID,
    name: str,
    data: Any = None,
    *,
    idempotency_key: str | None = None,
) -> Call[SignalInfo | SentSignal]:
    """Sends a signal to a run: nodes that wait for it, now or later, go on with its data."""
    return Call(
        method="POST",
        path=f"{_run(run_id)}/signals/{segment(name)}",
        body={"data": data},
        answer=SignalInfo,
        receipt=SentSignal,
        keyed=True,
        key=idempotency_key,
    )


def get_node_output(run_id: str | UUID, node: str) -> Call[NodeOutputInfo]:
    """Reads the output of a node that has ended."""
    path = f"{_run(run_id)}/outputs/{segment(node)}"
    return Call(method="GET", path=path, answer=NodeOutputInfo)


def _changed(path: str, body: Any = msgspec.UNSET, key: str | None = None) -> Call[ChangedRun]:
    return Call(
        method="POST",
        path=path,
        body=body,
        answer=WorkflowRunInfo,
        receipt=StartedRun,
        keyed=True,
        key=key,
    )


def _workflow(name: str) -> str:
    return f"{_WORKFLOWS}/{segment(name)}"


def _run(run_id: str | UUID) -> str:
    return f"{_RUNS}/{segment(run_id)}"
