"""Runs of a cron job whose target is a workflow: each is under way until its workflow run has
ended, whatever is done to that."""

import json
from typing import Any

import pytest
from tests.integration.cron_support import Unheard, created, make_due, planning
from tests.integration.support import joined, live, settlement

from gnomon.clock import SystemClock
from gnomon.cron.job import Overlap
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.model.targets.target import WorkflowTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.guards import Guards
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.workflows.recurring import Followed, WorkflowFire, WorkflowFires

LOOK_LATER = Verdict(VerdictKind.RETRY, delay=600.0)
ONE_NODE = {"a": {"task_type": "echo"}}
UNDONE = {
    "a": {"task_type": "echo", "compensate": {"task_type": "undo"}},
    "b": {"task_type": "echo", "after": ["a"]},
}


class Recurring:
    """A job that runs a workflow of one node, and a node that executes both."""

    def __init__(self, database: Database, connection: Any) -> None:
        self.database = database
        self.connection = connection
        self.planning = planning(database)
        self.dispatch = PostgresDispatch(database, 10.0)

    async def set(self, policy: Overlap, nodes: dict[str, Any]) -> None:
        """The first run has started its workflow, and says so later; the second one is due."""
        clock = SystemClock()
        directory = TenantCache(PostgresTenantReader(self.database), clock, {})
        await directory.load()
        rules = TenantRules(clock, directory, Guards(directory, ()), 1000)
        workflows, hints = PostgresWorkflows(self.database), CollectedHints(self.database)
        self.tasks = PostgresTasks(self.database, Unheard(), 60.0)
        self.fires = WorkflowFires(self.tasks, workflows, rules, hints.send)
        body = json.dumps({"name": "slow", "nodes": nodes}).encode()
        await workflows.put(DEFAULT_TENANT, "slow", body, b"digest", None, clock.now())
        self.node = await joined(self.database)
        self.job = await created(
            self.database, overlap_policy=policy, target=WorkflowTarget("slow"), task_type="slow"
        )
        (first,) = await make_due(self.connection, self.job)
        self.first = await self.claim(first)
        assert await self.follow(self.first) is Followed.STARTED
        (self.second,) = await make_due(self.connection, self.job)

    async def claim(self, key: TaskKey) -> Delivery:
        (delivery,) = (await self.dispatch.claim(self.node, [key])).deliveries
        return delivery

    async def follow(self, fire: Delivery) -> Followed:
        assert isinstance(fire.target, WorkflowTarget)
        followed, _ = await self.fires.follow(
            WorkflowFire(
                fire.key, fire.fence, fire.incarnation, fire.target, fire.payload, fire.origin
            )
        )
        return followed

    async def settle(
        self, delivery: Delivery, verdict: Verdict = COMPLETE, kind: OutcomeKind | None = None
    ) -> int:
        """Gives how many are settled by that."""
        outcome = kind or OutcomeKind.SUCCEEDED
        return len(await self.dispatch.settle([settlement(delivery, verdict, outcome)]))

    async def look_later(self, fire: Delivery) -> int:
        return await self.settle(fire, LOOK_LATER, OutcomeKind.SNOOZED)

    async def ask(self, key: TaskKey) -> list[TaskKey]:
        answer = await self.planning.claim_runs(self.node, [key])
        return [d.key for d in answer.claim.deliveries]

    async def start_queued(self) -> list[TaskKey]:
        job = TaskKey(self.job.tenant_id, self.job.id)
        return [e.key for e in await self.planning.start_queued([job])]

    async def state(self, key: TaskKey) -> State | None:
        row = await live(self.connection, key)
        return None if row is None else State(row["state"])

    async def step(self) -> None:
        while (await PostgresWorkflowSteps(self.database).take()).steps:
            pass

    async def node_of(self, run: TaskKey, name: str = "a") -> TaskKey:
        """The task of a node of a run."""
        found = await self.connection.fetchval(
            "SELECT task_id FROM gnomon.workflow_node WHERE run_id = $1 AND node = $2",
            run.id,
            name,
        )
        return TaskKey(run.tenant_id, found)

    async def end_cancelled(self) -> None:
        """Let the first run find that its workflow run has come to nothing."""
        ended = await self.claim(self.first.key)
        assert await self.follow(ended) is Followed.CANCELLED
        assert await self.settle(ended, LOOK_LATER, OutcomeKind.CANCELLED) == 1
        assert await self.state(self.first.key) is None


async def recurring(
    database: Database, connection: Any, policy: Overlap, nodes: dict[str, Any] = ONE_NODE
) -> Recurring:
    found = Recurring(database, connection)
    await found.set(policy, nodes)
    return found


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_RUNNING])
async def test_a_run_is_under_way_from_the_start_of_its_workflow_on(
    database: Database, connection: Any, policy: Overlap
) -> None:
    """Also before the node has said that it looks later."""
    stage = await recurring(database, connection, policy)
    assert await stage.state(stage.first.key) is State.RUNNING
    assert await stage.ask(stage.second) == []
    assert await stage.start_queued() == []
    assert await stage.look_later(stage.first) == 1
    assert await stage.start_queued() == []
    assert await stage.state(stage.first.key) is State.WAITING


async def test_a_run_ends_with_its_workflow_run_also_where_that_was_paused(
    database: Database, connection: Any
) -> None:
    stage = await recurring(database, connection, Overlap.QUEUE)
    await stage.look_later(stage.first)
    running = await stage.claim(await stage.node_of(stage.first.key))
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.workflows.pause(stage.first.key.id, paused=True)
    await stage.step()
    assert await stage.settle(running) == 1
    ended = await stage.claim(stage.first.key)
    assert await stage.follow(ended) is Followed.SUCCEEDED


async def test_a_run_that_is_replaced_ends_when_its_workflow_run_has(
    database: Database, connection: Any
) -> None:
    stage = await recurring(database, connection, Overlap.CANCEL_RUNNING)
    await stage.look_later(stage.first)
    running = await stage.claim(await stage.node_of(stage.first.key))
    assert await stage.ask(stage.second) == []
    await stage.step()
    assert await stage.start_queued() == []  # the node of the first one goes on
    assert await stage.settle(running, LOOK_LATER, OutcomeKind.CANCELLED) == 1
    await stage.end_cancelled()
    assert await stage.start_queued() == [stage.second]


@pytest.mark.parametrize("nodes", [ONE_NODE, UNDONE])
async def test_a_run_is_under_way_until_its_workflow_run_is_rolled_back(
    database: Database, connection: Any, nodes: dict[str, Any]
) -> None:
    stage = await recurring(database, connection, Overlap.QUEUE, nodes)
    run = stage.first.key
    await stage.look_later(stage.first)
    assert await stage.ask(stage.second) == []
    if nodes is UNDONE:
        await stage.settle(await stage.claim(await stage.node_of(run, "a")))
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.workflows.roll_back(run.id, "by hand", interrupt=True)
    await stage.step()
    if nodes is UNDONE:
        undoing = await stage.claim(await stage.node_of(run, "compensate:a"))
        assert await stage.start_queued() == []
        await stage.settle(undoing)
    await stage.end_cancelled()
    assert await stage.start_queued() == [stage.second]
