"""Retries a run from some of its nodes: a new run, to which the others lend what became of them."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.origin import Origin
from gnomon.model.workflow_errors import RunHasEnded, WorkflowNotFound
from gnomon.store.ports.work.workflows import NewWorkflowRun, ReadWorkflowRun
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.usecases.checks.authorization import check_whole, withheld
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.workflows import runs
from gnomon.usecases.workflows.definitions import definition_in
from gnomon.usecases.workflows.workflow_requests import WorkflowDefinition
from gnomon.workflow.graph import Graph
from gnomon.workflow.retry import first_again, nodes_again
from gnomon.workflow.run import WorkflowRun, WorkflowRunState

_ROLLED_BACK = (WorkflowRunState.ROLLING_BACK, WorkflowRunState.ROLLED_BACK)


async def accept_retry(
    store: PostgresWorkflows,
    rules: TenantRules,
    by: Principal,
    run_id: UUID,
    first: Sequence[str] | None,
    origin: Origin | None = None,
) -> NewWorkflowRun:
    """The run to store. `first`: where it begins; without, at what did not go well. Raises
    WorkflowRunNotFound, WorkflowNotFound, RunHasEnded, InvalidTask, LimitedKey."""
    check_whole(by)
    lender = await store.get_run(by.tenant_id, run_id)
    _check_lender(lender.run)
    definition = await _definition(store, lender.run)
    graph = runs.graph_in(definition)
    became = {each.node: each.became for each in lender.nodes if each.became is not None}
    again = nodes_again(graph, became, first_again(graph, became) if first is None else first)
    given = msgspec.UNSET if lender.run.input is None else msgspec.Raw(lender.run.input)
    try:
        run = await asyncio.to_thread(
            runs.accept_run, rules, by, definition, given, origin, lender.run.version
        )
    except InvalidTask as error:
        raise withheld(by, error, "/definition") from error
    return _partly(run, graph, again, run_id)


async def retry(change: PostgresTaskChange, run: NewWorkflowRun) -> ReadWorkflowRun:
    """Stores the run. Raises QuotaExceeded, RunHasEnded."""
    assert run.retry_of is not None
    _check_lender((await change.workflows.locked(run.retry_of)).run)
    return await runs.start(change, run)


def _check_lender(run: WorkflowRun) -> None:
    """Raises RunHasEnded."""
    if run.state in _ROLLED_BACK:
        remedy = "what its nodes have done is undone; start a new run"
        raise RunHasEnded(run.run_id, run.status, "retried", remedy)
    if not run.state.is_final:
        remedy = "it has not ended; retry its dead letters, or cancel it first"
        raise RunHasEnded(run.run_id, run.status, "retried", remedy)


async def _definition(store: PostgresWorkflows, run: WorkflowRun) -> WorkflowDefinition:
    if run.workflow is not None and run.version is not None:
        stored = await store.get(run.tenant_id, run.workflow, run.version)
        return definition_in(stored.definition)
    found = await store.run_definition(run.tenant_id, run.run_id)
    if found is None:
        raise WorkflowNotFound(run.workflow or f"of run {run.run_id}")
    return definition_in(found)


def _partly(
    run: NewWorkflowRun, graph: Graph, again: frozenset[str], lender: UUID
) -> NewWorkflowRun:
    return msgspec.structs.replace(
        run,
        retry_of=lender,
        nodes=[each for each in run.nodes if each.name in again],
        borrowed={name: node for name, node in graph.items() if name not in again},
        compensations=[each for each in run.compensations if each.node in again],
    )
