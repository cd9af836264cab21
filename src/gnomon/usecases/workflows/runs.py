"""Starts, reads and cancels runs of workflows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gnomon.access.principal import Principal
from gnomon.clock import new_id
from gnomon.model.errors import InvalidTask
from gnomon.model.fleet.shard import shard_of
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.work.tasks import MOST_CHECK_STEPS, NewTask
from gnomon.store.ports.work.workflows import (
    NewCompensation,
    NewNode,
    NewWorkflowRun,
    ReadWorkflowRun,
)
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.checks.crowd_check import check_crowd
from gnomon.usecases.checks.request_moments import latest_of
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.tasks.task_template import payload_of
from gnomon.usecases.workflows.node_tasks import NodeTasks, Requested, kind_of
from gnomon.usecases.workflows.workflow_requests import WorkflowDefinition
from gnomon.workflow.graph import (
    Graph,
    GraphNode,
    check_run_nodes,
    children_of,
    escaped,
    graph_of,
)
from gnomon.workflow.template import TemplateValues


def graph_in(definition: WorkflowDefinition) -> Graph:
    """The graph of a definition. Raises InvalidTask, with the place."""
    nodes = {
        name: GraphNode(node.after, node.when, node.on_failure)
        for name, node in definition.nodes.items()
    }
    return graph_of(nodes, [(before, after) for before, after in definition.edges])


def accept_run(
    rules: TenantRules,
    by: Principal,
    definition: WorkflowDefinition,
    raw_input: msgspec.Raw | msgspec.UnsetType,
    origin: Origin | None = None,
    version: int | None = None,
    run_id: UUID | None = None,
) -> NewWorkflowRun:
    """The run to store, with its tasks. Raises InvalidTask, with the place below the definition,
    and QuotaExceeded. Thousands of nodes take a while: run it in a thread."""
    graph = graph_in(definition)
    quota = rules.quotas(by.tenant_id).nodes_per_run
    check_run_nodes(0, len(graph), rules.max_run_nodes, quota)
    now = rules.clock.now()
    run_id = run_id or new_id(now)
    given = payload_of(raw_input, rules.max_payload_bytes, "/input")
    ids = _ids(graph, now)
    tasks = NodeTasks(rules, Requested(by, now, origin), graph, TemplateValues(run_id, given))
    nodes = [
        NewNode(
            name,
            graph[name],
            msgspec.structs.replace(task, id=ids[name]),
            template,
            kind_of(definition.nodes[name]),
        )
        for name, (task, template) in _tasks(tasks, graph, definition).items()
    ]
    compensations = [
        NewCompensation(name, task, template)
        for name, (task, template) in _compensations(tasks, graph, definition).items()
    ]
    deadline = None
    if definition.deadline_seconds is not None:
        deadline = latest_of(now + timedelta(seconds=definition.deadline_seconds))
    return NewWorkflowRun(
        tenant_id=by.tenant_id,
        id=run_id,
        nodes=nodes,
        input=given,
        created_at=now,
        created_by=by.name,
        deadline=deadline,
        fail_fast=definition.fail_fast,
        workflow=definition.name,
        version=version,
        definition=msgspec.json.encode(definition) if version is None else None,
        compensations=compensations,
    )


def check_definition(rules: TenantRules, by: Principal, definition: WorkflowDefinition) -> None:
    """Raises InvalidTask, with the place, where no run of it could be started."""
    graph, now = graph_in(definition), rules.clock.now()
    tasks = NodeTasks(rules, Requested(by, now, None), graph, None)
    _tasks(tasks, graph, definition)
    _compensations(tasks, graph, definition)


def check_room(rules: TenantRules, run: NewWorkflowRun) -> None:
    """Raises LaneCrowded where too much waits already in the lane of a task that starts at once."""
    for node in run.nodes:
        if not node.is_blocked:
            check_crowd(rules.directory, node.task, run.created_at)


async def start(change: PostgresTaskChange, run: NewWorkflowRun) -> ReadWorkflowRun:
    """Stores a run and its tasks. Raises QuotaExceeded."""
    await change.insert([NewTask(each.task) for each in run.nodes])
    first = {each.task.id for each in run.nodes if not each.is_blocked}  # the chore starts others
    change.due[:] = [entry for entry in change.due if entry.key.id in first]
    await change.workflows.insert(run)
    return await change.workflows.read(run.id)


async def cancel(
    change: PostgresTaskChange, by: Principal, run_id: UUID, *, interrupt: bool
) -> ReadWorkflowRun:
    """Cancels a run; its tasks follow. Raises LimitedKey, WorkflowRunNotFound, RunHasEnded."""
    check_whole(by)
    reason = "cancelled" if by.name is None else f"cancelled by {by.name}"
    return await change.workflows.cancel(run_id, reason, interrupt=interrupt)


async def roll_back(
    change: PostgresTaskChange, by: Principal, run_id: UUID, *, interrupt: bool
) -> ReadWorkflowRun:
    """Cancels what has not ended of a run, then undoes what has completed, the last first. Raises
    LimitedKey, WorkflowRunNotFound."""
    check_whole(by)
    reason = "rolled back" if by.name is None else f"rolled back by {by.name}"
    return await change.workflows.roll_back(run_id, reason, interrupt=interrupt)


async def pause(
    change: PostgresTaskChange, by: Principal, run_id: UUID, *, paused: bool
) -> ReadWorkflowRun:
    """Pauses or resumes a run. Raises LimitedKey, WorkflowRunNotFound, RunHasEnded."""
    check_whole(by)
    return await change.workflows.pause(run_id, paused=paused)


def _tasks(
    tasks: NodeTasks, graph: Graph, definition: WorkflowDefinition
) -> dict[str, tuple[Submission, bytes | None]]:
    found = {}
    for name in graph:
        with _within(tasks, f"/nodes/{escaped(name)}"):
            found[name] = tasks.task_of(name, definition.nodes[name])
    return found


def _compensations(
    tasks: NodeTasks, graph: Graph, definition: WorkflowDefinition
) -> dict[str, tuple[Submission, bytes | None]]:
    found = {}
    for name in graph:
        asked = definition.nodes[name].compensate
        if asked is not None:
            with _within(tasks, f"/nodes/{escaped(name)}/compensate"):
                found[name] = tasks.compensation_of(name, asked)
    return found


@contextmanager
def _within(tasks: NodeTasks, pointer: str) -> Iterator[None]:
    """Says of a task that is refused where it stands."""
    try:
        yield
    except InvalidTask as error:
        raise error.within(pointer) from error
    if tasks.work > MOST_CHECK_STEPS:
        detail = "takes too long to check with those before it; split the workflow"
        raise InvalidTask(detail, f"{pointer}/payload")


def _ids(graph: Graph, now: datetime) -> Mapping[str, UUID]:
    """Ids of the tasks. The first node that waits for a node is in its shard, so the node that
    settles the one goes on with the other; the rest are spread."""
    ids = {name: new_id(now) for name in graph}
    children = children_of(graph)
    heads = [name for name, node in graph.items() if not node.after]
    placed = set(heads)
    while heads:
        name = heads.pop()
        first = True
        for child in children[name]:
            if child in placed:
                continue
            placed.add(child)
            heads.append(child)
            if first:
                ids[child] = _in_shard(ids[child], shard_of(ids[name]))
                first = False
    return ids


def _in_shard(task_id: UUID, shard: int) -> UUID:
    return UUID(bytes=task_id.bytes[:15] + bytes([shard]))
