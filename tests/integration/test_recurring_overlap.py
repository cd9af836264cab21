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
