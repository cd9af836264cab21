"""Callbacks of a plain task: a run of a workflow of one edge each, to what follows its success and
to what follows its failure."""

from collections.abc import Sequence
from typing import NamedTuple

from gnomon.access.principal import Principal
from gnomon.clock import new_id
from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.ports.work.workflows import NewNode, NewWorkflowRun
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.tasks.task_requests import SubmitTask, SubmitWithCallbacks
from gnomon.usecases.workflows.node_tasks import NodeTasks, Requested
from gnomon.usecases.workflows.workflow_requests import WorkflowNodeBody
from gnomon.workflow.graph import Graph, GraphNode, When
from gnomon.workflow.template import TemplateValues

TASK = "task"  # the node that the callbacks come after
_RULES = {"on_success": When.ALL_SUCCEEDED, "on_failure": When.ANY_FAILED}


class _Callback(NamedTuple):
    name: str
    body: SubmitTask


def accept_callbacks(
    rules: TenantRules, by: Principal, asked: SubmitWithCallbacks, task: Submission
) -> tuple[NewWorkflowRun, int]:
    """The run that a task with callbacks is, and the steps that checking their payloads took.
    Raises InvalidTask, with the place."""
    if task.batch_id is not None:
        raise InvalidTask("give batch_id or callbacks of the task's own, not both", "/batch_id")
    given = [
        _Callback(name, body)
        for name, body in (("on_success", asked.on_success), ("on_failure", asked.on_failure))
        if body is not None
    ]
    now = rules.clock.now()
    run_id = new_id(now)
    graph: Graph = {
        TASK: GraphNode(),
        **{each.name: GraphNode((TASK,), _RULES[each.name]) for each in given},
    }
    requested = Requested(by, now, task.origin)
    tasks = NodeTasks(rules, requested, graph, TemplateValues(run_id, None))
    nodes = [NewNode(TASK, graph[TASK], task)]
    for name, body in given:
        fields = {each: getattr(body, each) for each in SubmitTask.__struct_fields__}
        try:
            made, template = tasks.task_of(name, WorkflowNodeBody(**fields))
        except InvalidTask as error:
            raise error.within(f"/{name}") from error
        nodes.append(NewNode(name, graph[name], made, template))
    run = NewWorkflowRun(
        tenant_id=by.tenant_id,
        id=run_id,
        nodes=nodes,
        input=None,
        created_at=now,
        created_by=by.name,
    )
    return run, tasks.work


async def start(change: PostgresTaskChange, run: NewWorkflowRun) -> None:
    """Stores the task and its callbacks. Raises QuotaExceeded."""
    await change.insert([NewTask(run.nodes[0].task)])
    await follow(change, [run])


async def follow(change: PostgresTaskChange, runs: Sequence[NewWorkflowRun]) -> None:
    """Stores the callbacks of tasks that this transaction has stored. Raises QuotaExceeded."""
    callbacks = [each.task for run in runs for each in run.nodes[1:]]
    due = len(change.due)
    await change.insert([NewTask(each) for each in callbacks])
    del change.due[due:]  # they wait for their turn
    await change.workflows.insert_alike(runs)
