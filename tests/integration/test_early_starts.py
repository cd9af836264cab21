"""Many tasks that are due at one instant: claimed before it, and started at it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.integration.early_stage import HERD, INSTANT, START, Stage
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, joined, live, store
from tests.waiting import eventually

from gnomon.model.errors import IllegalTransition, StoreUnavailable
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission, TaskPatch
from gnomon.node.settle.takeover import released
from gnomon.observe.events import TasksStarted
from gnomon.pipe.envelope import Report
from gnomon.store.postgres.database import Database
from gnomon.testing import turned_clock

WAITING = (State.WAITING, INSTANT, 0)
RUNNING = (State.RUNNING, INSTANT, 1)


@pytest.fixture
async def stage(database: Database, connection: Connection) -> Stage:
    await turned_clock.hold(connection, START)
    return Stage(database, connection, await joined(database))


async def test_they_are_claimed_before_and_started_at_the_instant(stage: Stage) -> None:
    keys = await stage.stored()
    await stage.before(51)
    assert await stage.early.claim() == 0
    await stage.before(50)
    assert await stage.early.claim() == HERD
    assert await stage.states(keys) == {RUNNING}
    await stage.at(INSTANT - timedelta(microseconds=1))
    assert (await stage.early.start(), stage.sent()) == (0, [])
    await stage.at(INSTANT)
    assert stage.agenda.ready == 0
    assert await stage.early.start() == HERD
    assert stage.sent() == keys
    (told,) = [event for event in stage.told if isinstance(event, TasksStarted)]
    assert {(task.started_at, task.due_at) for task in told.tasks} == {(INSTANT, INSTANT)}


async def test_a_clock_here_that_is_ahead_starts_nothing(stage: Stage) -> None:
    await stage.held_herd()
    stage.monotonic += 1.0
    assert (await stage.early.start(), stage.sent()) == (0, [])
    await stage.at(INSTANT)
    assert await stage.early.start() == HERD


async def test_few_are_claimed_at_their_time(stage: Stage) -> None:
    await stage.stored(20)
    await stage.before()
    assert await stage.early.claim() == 0
    await stage.at(INSTANT)
    assert (await stage.dispatcher.run_once()).claimed == 20


async def test_nothing_is_claimed_early_while_something_is_due(stage: Stage) -> None:
    await stage.stored()
    await stage.stored(1, due_at=START, execute_at=START)
    await stage.before()
    assert await stage.early.claim() == 0
    assert (await stage.dispatcher.run_once()).claimed == 1
    assert await stage.early.claim() == HERD


async def test_room_is_left_for_what_becomes_due_meanwhile(stage: Stage) -> None:
    await stage.stored(500)
    await stage.before()
    most = stage.pipe.early_room()
    assert 0 < await stage.early.claim() <= most
    late = await stage.stored(1, due_at=START, execute_at=START, tenant_id="other")
    await stage.before()
    urgent = await stage.stored(
        5, due_at=START, execute_at=START, tenant_id="third", priority=Lane.CRITICAL
    )
    await stage.before()
    assert (await stage.dispatcher.run_once()).claimed == 6
    assert set(stage.sent()) == {*late, *urgent}


async def test_they_are_chosen_by_share_and_start_by_lane(stage: Stage) -> None:
    one = await stage.stored(300, tenant_id="one", priority=Lane.LOW)
    two = await stage.stored(40, tenant_id="two", priority=Lane.CRITICAL)
    await stage.before()
    claimed = await stage.early.claim()
    of_one, of_two = (len(set(keys) & stage.held.fences.keys()) for keys in (one, two))
    assert of_one + of_two == claimed
    assert abs(of_one - of_two) <= 1 < of_one
    await stage.at(INSTANT)
    assert await stage.early.start() == claimed
    assert set(stage.sent()[:of_two]) <= set(two)
    assert stage.agenda.ready == 340 - claimed  # the others are due, and forgotten by nobody


async def test_what_a_limit_is_for_is_not_claimed_early(stage: Stage) -> None:
    await stage.stored(tenant_id="bound")
    await stage.before()
    assert await stage.early.claim() == 0
    await stage.at(INSTANT)
    assert (await stage.dispatcher.run_once()).claimed == HERD


@pytest.mark.parametrize(
    "change",
    [
        "batch_id = gen_random_uuid()",
        "cron_job_id = gen_random_uuid()",
        "workflow_run_id = gen_random_uuid()",
        "log_transitions = true",
        "losses = 1",
        "delivery = 1",
    ],
)
async def test_what_is_not_plain_in_its_row_is_not_claimed_early(stage: Stage, change: str) -> None:
    keys = await stage.stored()
    await stage.connection.execute(f"UPDATE gnomon.task SET {change} WHERE id = $1", keys[3].id)
    await stage.before()
    assert await stage.early.claim() == HERD - 1
    await stage.at(INSTANT)
    assert (await stage.dispatcher.run_once()).claimed == 1


async def test_what_could_not_be_claimed_early_is_looked_at_at_its_time(stage: Stage) -> None:
    keys = await stage.stored()
    later = INSTANT + timedelta(seconds=1)
    await stage.connection.execute(
        "UPDATE gnomon.task SET due_at = $2 WHERE id = $1", keys[0].id, later
    )
    await stage.connection.execute("UPDATE gnomon.task SET state = 2 WHERE id = $1", keys[1].id)
    await stage.before()
    assert await stage.early.claim() == HERD - 2
    await stage.connection.execute("UPDATE gnomon.task SET state = 0 WHERE id = $1", keys[1].id)
    await stage.at(INSTANT)
    assert await stage.early.start() == HERD - 2
    assert stage.agenda.ready == 2
    assert (await stage.dispatcher.run_once()).claimed == 1


@pytest.mark.parametrize("made", [False, True])
async def test_a_claim_that_fails_is_made_at_its_time(stage: Stage, made: bool) -> None:
    keys = await stage.stored()
    await stage.before()
    stage.store.fails_recalls, stage.store.loses_claims = not made, made
    with pytest.raises(StoreUnavailable):
        await stage.early.claim()
    assert stage.is_clear()
    stage.store.fails_recalls = stage.store.loses_claims = False
    if made:  # as the reconciler does
        rows = await stage.store.running_on(stage.lease.incarnation)
        assert len(rows) == HERD
        await stage.store.settle([released(row) for row in rows])
    assert await stage.states(keys) == {WAITING}
    await stage.at(INSTANT)
    assert (await stage.dispatcher.run_once()).claimed == HERD


async def test_what_is_held_when_the_node_stops_waits_for_its_time(stage: Stage) -> None:
    keys = await stage.held_herd()
    stage.held.stopped = True
    unsent = stage.pipe.unsent()
    assert [d.key for d in unsent] == keys
    for delivery in unsent:
        stage.pipe.report(Report(delivery))
    await stage.at(INSTANT)
    assert (await stage.early.start(), stage.sent()) == (0, [])
    await stage.before(10)
    await stage.settle_all()
    assert await stage.states(keys) == {WAITING}
    assert stage.is_clear()


async def test_who_cannot_ask_gives_back_what_it_holds(stage: Stage) -> None:
    keys = await stage.held_herd()
    await stage.at(INSTANT)
    stage.store.fails_recalls = True
    assert (await stage.early.start(), stage.sent()) == (0, [])
    stage.store.fails_recalls = False
    await stage.settle_all()
    assert await stage.states(keys) == {WAITING}
    assert stage.is_clear()
    await stage.at(INSTANT)
    assert (await stage.dispatcher.run_once()).claimed == HERD


Change = Callable[[Any, UUID], Any]
CHANGES: dict[str, Change] = {
    "cancel": lambda change, task_id: change.cancel(task_id, interrupt=False),
    "interrupt": lambda change, task_id: change.cancel(task_id, interrupt=True),
    "pause": lambda change, task_id: change.pause(task_id),
    "delete": lambda change, task_id: change.delete(task_id),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_is_held_can_be_changed_and_is_not_called(stage: Stage, name: str) -> None:
    keys = await stage.held_herd()
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await CHANGES[name](change, keys[7].id)
    row = await live(stage.connection, keys[7])
    assert (row and row["state"]) == (State.PAUSED if name == "pause" else None)
    await stage.at(INSTANT)
    assert await stage.early.start() == HERD - 1
    assert keys[7] not in stage.sent()
    await stage.settle_all()  # of the one that was taken back: refused
    for delivery in stage.taken:
        stage.pipe.report(Report(delivery))
    await stage.settle_all()
    assert stage.is_clear()
    row = await live(stage.connection, keys[7])
    assert (row and row["state"]) == (State.PAUSED if name == "pause" else None)


async def test_what_is_held_can_be_moved(stage: Stage) -> None:
    keys = await stage.held_herd()
    later = INSTANT + timedelta(hours=1)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        task = await change.patch(keys[7].id, TaskPatch(execute_at=later))
    assert (task.status, task.attempt) == ("SCHEDULED", 0)
    await stage.at(INSTANT)
    assert await stage.early.start() == HERD - 1
    assert await stage.states([keys[7]]) == {(State.WAITING, later, 0)}


async def test_what_is_taken_back_and_left_as_it_was_starts_all_the_same(stage: Stage) -> None:
    keys = await stage.held_herd()
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.get(keys[7].id)
    await stage.at(INSTANT)
    assert await stage.early.start() == HERD - 1
    await stage.settle_all()
    await stage.at(INSTANT + timedelta(milliseconds=5))
    assert (await stage.dispatcher.run_once()).claimed == 1


async def test_a_change_that_is_not_committed_yet_is_seen(stage: Stage) -> None:
    keys = await stage.held_herd()
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.cancel(keys[7].id, interrupt=False)
        await stage.at(INSTANT)
        assert await stage.early.start() == HERD - 1
    assert keys[7] not in stage.sent()
    assert await live(stage.connection, keys[7]) is None


async def test_a_change_that_comes_at_the_instant_finds_it_running(stage: Stage) -> None:
    keys = await stage.held_herd()
    await stage.at(INSTANT)
    with pytest.raises(IllegalTransition, match="RUNNING"):
        async with stage.tasks.change(DEFAULT_TENANT) as change:
            await change.cancel(keys[7].id, interrupt=False)
    assert await stage.early.start() == HERD


async def test_the_time_is_read_after_the_number_is_drawn(stage: Stage) -> None:
    """One whose time has come meanwhile is not taken back: its node may not see the number."""
    keys = await stage.held_herd()
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change._lock(keys[3].id)
    await stage.at(INSTANT)
    before = (await stage.store.recalls()).number
    statement = "SELECT nextval('gnomon.recalls')"
    await stage.connection.execute(statement)
    assert (await stage.store.recalls()).number == before + 1


async def test_bulk_changes_reach_what_is_held(stage: Stage) -> None:
    keys = await stage.held_herd()
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        held = await change.bulk.hold([key.id for key in keys[:10]])
        assert {row["state"] for row in held.values()} == {State.WAITING}
        await change.bulk.cancel(list(held))
    await stage.at(INSTANT)
    assert await stage.early.start() == HERD - 10
    assert set(stage.sent()) == set(keys[10:])


async def test_one_that_may_not_start_any_more_is_released(stage: Stage) -> None:
    keys = await stage.held_herd()
    assert stage.pipe.late((INSTANT + timedelta(seconds=4)).timestamp()) == []
    late = stage.pipe.late((INSTANT + timedelta(seconds=6)).timestamp())
    assert [d.key for d in late] == keys


async def test_a_node_starts_them_all_and_none_early(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    due_at = await database_now(connection) + timedelta(seconds=1.5)
    herd: list[Submission] = [
        msgspec.structs.replace(call_of(due_at, "echo")[1], due_at=due_at, execute_at=due_at)
        for _ in range(60)
    ]
    async with running_node(database_dsn, node_slots=100):
        await store(database, *herd)

        async def all_ran() -> bool:
            return bool(await connection.fetchval("SELECT count(*) = 60 FROM gnomon.task_archive"))

        await eventually(all_ran)
    rows = await connection.fetch("SELECT started_at, attempt, state FROM gnomon.task_archive")
    assert all(row["started_at"] >= due_at for row in rows)
    assert {(row["attempt"], row["state"]) for row in rows} == {(1, State.COMPLETED)}
