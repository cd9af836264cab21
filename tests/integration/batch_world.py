"""Batches of one tenant, for tests of what ends their members."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.support import joined

from gnomon.clock import SystemClock, new_id
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission, TaskKey
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.ports.work.batches import NewBatch
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.batches.batch_steps import PostgresBatchSteps
from gnomon.store.postgres.batches.batch_store import PostgresBatches
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.workflows.workflow_steps import Taken
from gnomon.usecases.workflows.batches import open_batch
from gnomon.workflow.batch import BatchOfTasks


class World:
    """Batches of one tenant, and the node that settles their members."""

    def __init__(self, database: Database, clock: SystemClock, incarnation: UUID) -> None:
        self.tasks = PostgresTasks(database, CollectedHints(database), 60.0)
        self.batches = PostgresBatches(database)
        self.steps = PostgresBatchSteps(database)
        self._dispatch = PostgresDispatch(database, 10.0)
        self._clock = clock
        self._incarnation = incarnation

    def task(self, batch_id: UUID | None = None) -> Submission:
        now = self._clock.now()
        return Submission(
            tenant_id=DEFAULT_TENANT, id=new_id(now), task_type="step", target=PythonTarget("step"),
            execute_at=now, due_at=now, batch_id=batch_id,
        )  # fmt: skip

    async def open(self) -> BatchOfTasks:
        now = self._clock.now()
        new = NewBatch(
            tenant_id=DEFAULT_TENANT, id=new_id(now), name=None, created_at=now, created_by=None,
            deadline=now + timedelta(days=1), on_success=self.task(), on_complete=self.task(),
        )  # fmt: skip
        async with self.tasks.change(DEFAULT_TENANT) as change:
            return await open_batch(change, new)

    async def put(self, batch: BatchOfTasks, number: int = 1) -> list[UUID]:
        """Put tasks in as a request of many does. Raises BatchIsClosed."""
        new = [NewTask(self.task(batch.batch_id)) for _ in range(number)]
        async with self.tasks.change(DEFAULT_TENANT) as change:
            return [each.task_id for each in await change.insert(new)]

    async def put_one(self, batch: BatchOfTasks) -> UUID:
        """Put a task in as a single request does. Raises BatchIsClosed."""
        (receipt,) = await self.tasks.insert([NewTask(self.task(batch.batch_id))])
        if receipt.refused is not None:
            raise receipt.refused
        return receipt.task_id

    async def close(self, batch: BatchOfTasks) -> BatchOfTasks:
        async with self.tasks.change(DEFAULT_TENANT) as change:
            return await change.batches.close(batch.batch_id)

    async def cancel(self, batch: BatchOfTasks) -> BatchOfTasks:
        async with self.tasks.change(DEFAULT_TENANT) as change:
            return await change.batches.cancel(batch.batch_id, "cancelled", interrupt=False)

    async def settle(self, ids: list[UUID], verdict: Verdict = COMPLETE) -> list[UUID]:
        """Claim and settle; gives the callbacks that this has started."""
        keys = [TaskKey(DEFAULT_TENANT, each) for each in ids]
        claimed = (await self._dispatch.claim(self._incarnation, keys)).deliveries
        ended = OutcomeKind.SUCCEEDED if verdict is COMPLETE else OutcomeKind.FAILED
        settled = await self._dispatch.settle(
            [
                Settlement(each.key, each.fence, self._incarnation, verdict, ended)
                for each in claimed
            ]
        )
        assert len(settled) == len(ids)
        return [child.key.id for each in settled if each for child in each.children]

    async def follow(self) -> None:
        taken = Taken(steps=1)
        while taken.steps:
            taken = Taken()
            await self.steps.take(taken)

    async def read(self, batch: BatchOfTasks) -> BatchOfTasks:
        return await self.batches.get(DEFAULT_TENANT, batch.batch_id)


@pytest.fixture
async def world(database: Database, clock: SystemClock) -> World:
    return World(database, clock, await joined(database))


async def states(connection: "asyncpg.Connection[Any]", *ids: UUID | None) -> list[State]:
    rows = await connection.fetch(
        "SELECT id, state FROM gnomon.task WHERE id = ANY ($1) UNION ALL "
        "SELECT id, state FROM gnomon.task_archive WHERE id = ANY ($1)", ids,
    )  # fmt: skip
    found = {row["id"]: State(row["state"]) for row in rows}
    return [found[each] for each in ids if each]
