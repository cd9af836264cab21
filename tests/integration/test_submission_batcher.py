"""Which submissions share a commit."""

import asyncio
from collections.abc import Sequence

from tests.integration.support import Connection, database_now, submission
from tests.waiting import eventually

from gnomon.bench.arena import Nobody
from gnomon.store.ports.work.tasks import NewTask, Receipt
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.tasks.submission_batcher import WORTH_A_COMMIT, SubmissionBatcher

FOREVER = 600.0


class Witnessed(PostgresTasks):
    """A store whose commits are seen, and can be held up."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, Nobody(), 60.0)
        self.sizes: list[int] = []
        self.may_go_on = asyncio.Event()

    async def insert(self, batch: Sequence[NewTask], *, patient: bool = True) -> list[Receipt]:
        self.sizes.append(len(batch))
        await self.may_go_on.wait()
        return await super().insert(batch, patient=patient)


async def _turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_few_submissions_gather_while_a_commit_is_under_way(
    database: Database, connection: Connection
) -> None:
    store, now = Witnessed(database), await database_now(connection)
    intake = SubmissionBatcher(store, FOREVER)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(intake.run())
        asked = []
        for _ in range(6):  # one after another, as requests come
            asked.append(intake.submit(NewTask(submission(now, 60))))
            await _turns(5)
        assert store.sizes == [1]
        store.may_go_on.set()
        stored = {receipt.task_id for receipt in await asyncio.gather(*asked)}
        running.cancel()
    assert store.sizes == [1, 5]
    assert stored == {row["id"] for row in await connection.fetch("SELECT id FROM gnomon.task")}


async def test_many_are_committed_beside_a_commit_that_is_under_way(
    database: Database, connection: Connection
) -> None:
    store, now = Witnessed(database), await database_now(connection)
    intake = SubmissionBatcher(store, FOREVER)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(intake.run())
        asked = []
        for _ in range(1 + WORTH_A_COMMIT):
            asked.append(intake.submit(NewTask(submission(now, 60))))
            await _turns(5)
        assert store.sizes == [1, WORTH_A_COMMIT]
        store.may_go_on.set()
        await asyncio.gather(*asked)
        running.cancel()


async def test_few_do_not_wait_for_long_for_one_that_is_held_up(
    database: Database, connection: Connection
) -> None:
    store, now = Witnessed(database), await database_now(connection)
    intake = SubmissionBatcher(store)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(intake.run())
        first = intake.submit(NewTask(submission(now, 60)))
        await _turns(5)
        second = intake.submit(NewTask(submission(now, 60)))

        async def both_are_under_way() -> bool:
            return store.sizes == [1, 1]

        await eventually(both_are_under_way)
        store.may_go_on.set()
        await asyncio.gather(first, second)
        running.cancel()
