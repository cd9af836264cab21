"""Transitions of tasks whose type logs them: one row for each change that was committed."""

from typing import Any

import pytest
from tests.integration.cron_support import Unheard, created, planned
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    settlement,
    store,
    submission,
)

from gnomon.clock import new_id
from gnomon.model.errors import StatementRefused, TaskNotFound
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.retention.expired_rows import ExpiredRows
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.usage import sizes

W, R, P, D = State.WAITING, State.RUNNING, State.PAUSED, State.DEAD
Step = tuple[State | None, State | None]
STORED: Step = (None, W)
CLAIMED: Step = (W, R)


class Log:
    """A node that claims and settles, and the transitions of a task."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection
        self.dispatch = PostgresDispatch(database, 10.0)
        self.tasks = PostgresTasks(database, Unheard(), 60.0)

    async def task(self, **values: Any) -> TaskKey:
        now = await database_now(self.connection)
        fields = {"log_transitions": True} | values
        (key,) = await store(self.database, submission(now, **fields))
        return key

    async def claim(self, key: TaskKey, node: str = "node") -> Delivery:
        incarnation = await joined(self.database, node)
        (delivery,) = (await self.dispatch.claim(incarnation, [key])).deliveries
        return delivery

    async def fail(self, key: TaskKey, kind: VerdictKind, node: str = "node") -> None:
        delivery = await self.claim(key, node)
        await self.dispatch.settle([settlement(delivery, Verdict(kind), OutcomeKind.FAILED)])

    async def steps(self, key: TaskKey) -> list[Step]:
        page = await self.tasks.transitions(key, None, 500)
        assert [each.number for each in page.transitions] == [*range(1, len(page.transitions) + 1)]
        return [(each.from_state, each.to_state) for each in page.transitions]

    async def all(self) -> int:
        count: int = await self.connection.fetchval("SELECT count(*) FROM gnomon.transition")
        return count


@pytest.fixture
async def log(database: Database, connection: Connection) -> Log:
    return Log(database, connection)


async def test_a_task_that_succeeds(log: Log) -> None:
    before = await database_now(log.connection)
    key = await log.task()
    delivery = await log.claim(key, "worker-7")
    await log.dispatch.settle([settlement(delivery)])
    assert await log.steps(key) == [STORED, CLAIMED, (R, State.COMPLETED)]
    found = (await log.tasks.transitions(key, None, 10)).transitions
    assert [each.node for each in found] == [None, "worker-7", "worker-7"]
    assert [(each.attempt, each.fence) for each in found] == [(0, 0), (1, 1), (1, 1)]
    times = [before, *(each.at for each in found), await database_now(log.connection)]
    assert times == sorted(times)


async def test_a_task_that_is_tried_again_dies_and_is_redriven(log: Log) -> None:
    key = await log.task()
    await log.fail(key, VerdictKind.RETRY, "first")
    await log.fail(key, VerdictKind.DEAD_LETTER, "second")
    async with log.tasks.change(key.tenant_id) as change:
        await change.redrive(key.id)
    await log.fail(key, VerdictKind.DEAD_LETTER)
    async with log.tasks.change(key.tenant_id) as change:
        await change.resolve(key.id, Resolution.DISCARDED, None, None)
    assert await log.steps(key) == [
        STORED, CLAIMED, (R, W), CLAIMED, (R, D), (D, W), CLAIMED, (R, D), (D, State.RESOLVED),
    ]  # fmt: skip


async def test_a_task_that_is_released_or_lost(log: Log) -> None:
    key = await log.task()
    released = await log.claim(key)
    await log.dispatch.settle([settlement(released, Verdict(VerdictKind.RELEASE), None)])
    lost = await log.claim(key)
    await log.dispatch.settle([settlement(lost, Verdict(VerdictKind.RETRY), OutcomeKind.LOST)])
    found = (await log.tasks.transitions(key, None, 10)).transitions
    assert await log.steps(key) == [STORED, CLAIMED, (R, W), CLAIMED, (R, W)]
    assert [each.attempt for each in found] == [0, 1, 0, 1, 1]
    # A settlement that comes too late changes nothing, and appends nothing.
    await log.dispatch.settle([settlement(released), settlement(lost)])
    assert len(await log.steps(key)) == 5


async def test_a_task_that_expires(log: Log) -> None:
    key = await log.task()
    delivery = await log.claim(key)
    await log.dispatch.settle([settlement(delivery, Verdict(VerdictKind.EXPIRE), None)])
    assert await log.steps(key) == [STORED, CLAIMED, (R, State.EXPIRED)]


async def test_a_task_that_its_handler_completes_in_a_transaction(log: Log) -> None:
    key = await log.task()
    delivery = await log.claim(key)
    complete = "SELECT gnomon.complete_run($1, $2, $3, $4)"
    args = (key.tenant_id, key.id, delivery.fence, delivery.incarnation)
    transaction = log.connection.transaction()
    await transaction.start()
    await log.connection.execute(complete, *args)
    await transaction.rollback()
    assert await log.steps(key) == [STORED, CLAIMED]
    await log.connection.execute(complete, *args)
    assert await log.steps(key) == [STORED, CLAIMED, (R, State.COMPLETED)]


async def test_tasks_that_somebody_deletes(log: Log) -> None:
    waiting, finished = await log.task(), await log.task()
    await log.dispatch.settle([settlement(await log.claim(finished))])
    for key in (waiting, finished):
        async with log.tasks.change(key.tenant_id) as change:
            await change.delete(key.id)
    assert await log.steps(waiting) == [STORED, (W, None)]
    ended = (R, State.COMPLETED)
    assert await log.steps(finished) == [STORED, CLAIMED, ended, (State.COMPLETED, None)]
    await log.connection.execute("TRUNCATE gnomon.transition")
    with pytest.raises(TaskNotFound):
        await log.tasks.transitions(waiting, None, 10)


async def test_plain_sql_is_logged_once_it_is_committed(log: Log) -> None:
    key = await log.task()
    change = "UPDATE gnomon.task SET state = $1 WHERE id = $2"
    transaction = log.connection.transaction()
    await transaction.start()
    await log.connection.execute(change, P, key.id)
    await transaction.rollback()
    await log.connection.execute(change, P, key.id)
    await log.connection.execute(change, P, key.id)  # it stays what it is
    await log.connection.execute("DELETE FROM gnomon.task WHERE id = $1", key.id)
    assert await log.steps(key) == [STORED, (W, P), (P, None)]


async def test_other_tasks_leave_nothing(log: Log) -> None:
    plain, logged = await log.task(log_transitions=False), await log.task()
    now = await database_now(log.connection)
    mixed = await store(
        log.database, *(submission(now, log_transitions=each) for each in (False, True, False))
    )
    for key in (plain, *mixed):
        await log.dispatch.settle([settlement(await log.claim(key))])
    async with log.tasks.change(plain.tenant_id) as change:
        await change.delete(plain.id)
    assert [len(await log.steps(key)) for key in (logged, *mixed)] == [1, 0, 3, 0]
    # As the version before stores it, and its rows from before the column.
    await log.connection.execute(
        "INSERT INTO gnomon.task (tenant_id, id, task_type, target) VALUES ($1, $2, 'x', '{}')",
        *(DEFAULT_TENANT, new_id(now)),
    )
    assert await log.all() == 4


async def test_a_run_of_a_cron_job_asks_its_type_when_it_is_stored(log: Log) -> None:
    job = await created(log.database, cron_expression="* * * * * *")
    await planned(log.database, job)
    assert await log.all() == 0
    await log.connection.execute(
        "INSERT INTO gnomon.task_type (tenant_id, name, schema, defaults)"
        """ VALUES ('default', 'test', 'true', '{"log_transitions": true}')"""
    )
    other = await created(log.database, name="other")
    await planned(log.database, other)
    runs = await log.connection.fetchval(
        "SELECT count(*) FROM gnomon.task WHERE cron_job_id = $1", other.id
    )
    assert await log.all() == runs > 0


async def test_a_task_has_a_bounded_number_of_them_and_its_end(log: Log) -> None:
    key = await log.task()
    await log.connection.execute(
        "UPDATE gnomon.transition SET number = 999 WHERE task_id = $1", key.id
    )
    for state in (P, W, P):
        await log.connection.execute(
            "UPDATE gnomon.task SET state = $1 WHERE id = $2", state, key.id
        )
    await log.connection.execute("DELETE FROM gnomon.task WHERE id = $1", key.id)
    found = (await log.tasks.transitions(key, None, 10)).transitions
    assert [(each.number, each.to_state) for each in found] == [(999, W), (1000, P), (1001, None)]


async def test_pages_go_on_where_they_stopped(log: Log) -> None:
    key = await log.task()
    await log.dispatch.settle([settlement(await log.claim(key))])
    first = await log.tasks.transitions(key, None, 2)
    assert ([each.number for each in first.transitions], first.next_cursor) == ([1, 2], 2)
    second = await log.tasks.transitions(key, 2, 2)
    assert ([each.number for each in second.transitions], second.next_cursor) == ([3], None)
    assert (await log.tasks.transitions(key, 3, 2)).transitions == []


async def test_they_are_kept_as_long_as_history(log: Log) -> None:
    old, new = await log.task(), await log.task()
    await log.dispatch.settle([settlement(await log.claim(old))])
    await log.connection.execute(
        "UPDATE gnomon.transition SET at = at - interval '8 days' WHERE task_id = $1", old.id
    )
    rows = ExpiredRows(log.database)
    removed = [await rows.remove(RowKind.TRANSITIONS, 2, 7.0) for _ in range(3)]
    assert [(each.removed, each.more) for each in removed] == [(2, True), (1, False), (0, False)]
    assert (len(await log.steps(old)), len(await log.steps(new))) == (0, 1)


async def test_they_count_for_the_bytes_of_a_tenant(log: Log) -> None:
    now = await database_now(log.connection)
    plain, logged = (submission(now, log_transitions=each) for each in (False, True))
    held = [
        sizes.of_tasks([each], ["{}"], {}, plain=not each.log_transitions)[0]
        for each in (plain, logged)
    ]
    assert held[1] - held[0] >= 3 * sizes.TRANSITION_BYTES


async def test_a_tenant_reads_its_own_and_changes_none(log: Log) -> None:
    key = await log.task()
    theirs = await log.task(tenant_id="other")
    with pytest.raises(TaskNotFound):
        await log.tasks.transitions(TaskKey(DEFAULT_TENANT, theirs.id), None, 10)
    async with log.database.scoped(DEFAULT_TENANT) as connection:
        seen = await connection.fetch("SELECT task_id FROM gnomon.transition")
        assert [row["task_id"] for row in seen] == [key.id]
    for change in (
        "UPDATE gnomon.transition SET attempt = 9",
        "DELETE FROM gnomon.transition",
        "INSERT INTO gnomon.transition SELECT * FROM gnomon.transition",
        "SELECT gnomon.append_transition('default', NULL, 'x', 0, 1, 1, 1, NULL, true)",
    ):
        with pytest.raises(StatementRefused, match="permission denied"):
            async with log.database.scoped(DEFAULT_TENANT) as connection:
                await connection.execute(change)
