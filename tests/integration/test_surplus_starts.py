"""Herds that are larger than the room of the slots: held all the same where they start at once."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.early_stage import INSTANT, SLOTS, START, Stage
from tests.integration.support import Connection, joined, live

from gnomon.model.errors import StoreUnavailable
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.node.settle.takeover import released
from gnomon.pipe.envelope import Report
from gnomon.store.postgres.database import Database
from gnomon.testing import turned_clock
from gnomon.testing.contracts.pipe import a_delivery

MANY = 400  # that the slots have no room for
WAITING = {(State.WAITING, INSTANT, 0)}


@pytest.fixture
async def stage(database: Database, connection: Connection) -> Stage:
    await turned_clock.hold(connection, START)
    stage = Stage(database, connection, await joined(database), share=1.0)
    stage.startable = 1000
    return stage


async def held(stage: Stage, count: int = MANY) -> list[TaskKey]:
    """So many are held, more than there is room for."""
    assert stage.pipe.early_room() < count
    keys = await stage.stored(count)
    await stage.before()
    assert await stage.early.claim() == count
    return keys


async def run_all(stage: Stage) -> list[TaskKey]:
    """Run, and write, all that is handed or offered to slots."""
    ran = stage.run()
    stage.early.follow()
    await stage.settle_all()
    return ran


async def fill_slots(stage: Stage) -> None:
    """Give every slot something to do that does not end."""
    await stage.stored(SLOTS - 5, due_at=START, execute_at=START)
    await stage.before(20)
    claimed = 0
    while (result := await stage.dispatcher.run_once()).claimed:
        claimed += result.claimed
    assert (claimed, len(stage.sent())) == (25, 25)  # all that there is room for
    await stage.before(10)


async def test_more_than_there_is_room_for_starts_at_the_instant(stage: Stage) -> None:
    room = stage.pipe.room()
    keys = await held(stage)
    assert room - stage.pipe.room() <= room - SLOTS // 4  # the rest is for what becomes due
    assert await stage.early.start() == 0
    await stage.at(INSTANT)
    assert await stage.early.start() == MANY
    assert Counter(await run_all(stage)) == Counter(keys)
    assert Counter(stage.told_started()) == Counter(keys)
    assert stage.is_clear()


async def test_reports_are_read_once_all_have_started(stage: Stage) -> None:
    await held(stage)
    await stage.at(INSTANT)
    await stage.early.start()
    stage.run(MANY - 60)
    stage.early.follow()
    assert stage.pipe._reports._paused
    stage.run()
    stage.early.follow()
    assert not stage.pipe._reports._paused


@pytest.mark.parametrize("startable", [0, 200])
async def test_no_more_is_held_than_can_start_soon(stage: Stage, startable: int) -> None:
    stage.startable = startable
    await stage.stored(MANY)
    await stage.before()
    room = stage.pipe.early_room()
    assert await stage.early.claim() == max(room, startable)
    await stage.at(INSTANT)
    assert stage.agenda.ready == MANY - max(room, startable)


async def test_a_surplus_keeps_to_the_shares_of_tenants(
    database: Database, connection: Connection
) -> None:
    await turned_clock.hold(connection, START)
    claimed = []
    for startable in (0, 1000):
        stage = Stage(database, connection, await joined(database))
        stage.startable = startable
        await stage.stored(MANY)
        await stage.before()
        claimed.append(await stage.early.claim())
    assert claimed[0] == claimed[1] < SLOTS


async def test_nothing_critical_is_held_beyond_the_room(stage: Stage) -> None:
    await stage.stored(MANY, priority=Lane.CRITICAL)
    await stage.before()
    room = stage.pipe.early_room()
    assert await stage.early.claim() == room


async def test_a_row_that_cannot_be_read_is_buried_and_ends_nothing(stage: Stage) -> None:
    keys = await stage.stored(MANY)
    broken = keys[-1]  # of the surplus
    await stage.connection.execute("UPDATE gnomon.task SET target = '{}' WHERE id = $1", broken.id)
    await stage.before()
    assert await stage.early.claim() == MANY - 1
    row = await live(stage.connection, broken)
    assert row is not None
    assert row["state"] == State.DEAD
    await stage.at(INSTANT)
    assert await stage.early.start() == MANY - 1
    assert Counter(await run_all(stage)) == Counter(keys[:-1])
    assert stage.is_clear()


async def test_of_two_claims_of_a_task_only_the_one_that_stands_is_called(stage: Stage) -> None:
    keys = await held(stage)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.bulk.hold([key.id for key in keys[-50:]])  # and leaves them as they are
    stage.known(keys[-50:])
    assert await stage.early.claim() == 50
    await stage.at(INSTANT)
    assert await stage.early.start() == MANY
    assert Counter(await run_all(stage)) == Counter(keys)
    assert stage.is_clear()


async def test_what_slots_do_not_get_to_is_given_back_at_once(stage: Stage) -> None:
    keys = await held(stage)
    await fill_slots(stage)
    await stage.at(INSTANT)
    assert await stage.early.start() == MANY
    begun = stage.sent()  # the slots that were left
    assert [stage.early.follow() for _ in range(5)] == [0] * 5
    await stage.at(INSTANT + timedelta(milliseconds=30))
    unstarted = stage.early.follow()
    assert unstarted >= MANY - SLOTS * 2
    await stage.settle_all()
    other = await joined(stage.database)
    waiting = [key for key in keys if key not in begun]
    claim = await stage.store.claim(other, waiting)
    assert len(claim.deliveries) == unstarted
    assert not stage.pipe.offered()


async def test_what_starts_too_slowly_is_given_back_as_well(stage: Stage) -> None:
    keys = await held(stage, 1000)
    await stage.at(INSTANT)
    await stage.early.start()
    given, ran = 0, []
    for milliseconds in range(25, 400, 20):
        await stage.at(INSTANT + timedelta(milliseconds=milliseconds))
        ran += stage.run(50)
        given += stage.early.follow()
        assert bool(given) == (milliseconds > 300)
    ran += await run_all(stage)
    assert len(ran) + given == len(keys)
    assert stage.is_clear()


async def test_a_loop_that_was_held_up_gives_nothing_back(stage: Stage) -> None:
    await held(stage)
    await stage.at(INSTANT)
    await stage.early.start()
    stage.early.follow()
    await stage.at(INSTANT + timedelta(milliseconds=100))
    assert stage.early.follow() == 0
    assert len(await run_all(stage)) == MANY


@pytest.mark.parametrize("offered", [False, True])
async def test_a_drain_gives_all_of_it_back(stage: Stage, offered: bool) -> None:
    keys = await held(stage)
    if offered:
        await stage.at(INSTANT)
        assert await stage.early.start() == MANY
    stage.held.stopped = True
    for delivery in stage.pipe.unsent():
        stage.pipe.report(Report(delivery))
    await stage.settle_all()
    assert await stage.states(keys) == WAITING
    assert stage.is_clear()
    assert (await stage.early.start(), stage.run()) == (0, [])


@pytest.mark.parametrize("fails", ["fails_recalls", "fails_begin"])
async def test_who_cannot_ask_gives_the_surplus_back(stage: Stage, fails: str) -> None:
    keys = await held(stage)
    if fails == "fails_begin":
        await stage.connection.execute("SELECT nextval('gnomon.recalls')")
    await stage.at(INSTANT)
    setattr(stage.store, fails, True)
    assert (await stage.early.start(), stage.run()) == (0, [])
    setattr(stage.store, fails, False)
    await stage.settle_all()
    assert await stage.states(keys) == WAITING
    assert stage.is_clear()
    await stage.at(INSTANT)
    assert (await stage.dispatcher.run_once()).claimed > 0


async def test_a_backend_that_is_lost_between_claims_costs_no_task(stage: Stage) -> None:
    keys = await stage.stored(900)
    await stage.before()

    async def lose() -> None:
        stage.store.loses_claims = True

    async def lose_the_next() -> None:
        stage.store.on_claim = lose

    stage.store.on_claim = lose_the_next
    with pytest.raises(StoreUnavailable):
        await stage.early.claim()
    stage.store.loses_claims = False
    rows = await stage.store.running_on(stage.lease.incarnation)
    unknown = [row for row in rows if not stage.held.holds(row.key, row.fence)]
    assert len(unknown) in range(300, 900)
    await stage.store.settle([released(row) for row in unknown])  # as the reconciler does
    await stage.at(INSTANT)
    assert await stage.early.start() == 900 - len(unknown)
    ran = await run_all(stage)
    while (await stage.dispatcher.run_once()).claimed:
        ran += await run_all(stage)
    assert Counter(ran) == Counter(keys)
    assert stage.is_clear()


async def test_what_becomes_due_meanwhile_comes_first_and_the_rest_is_still_held(
    stage: Stage,
) -> None:
    keys = await stage.stored(900)
    await stage.before()
    urgent: list[TaskKey] = []

    async def one_becomes_due() -> None:
        urgent.extend(await stage.stored(1, due_at=START, execute_at=START))
        await stage.before(25)

    stage.store.on_claim = one_becomes_due
    assert await stage.early.claim() == 500
    assert (await stage.early.claim(), stage.agenda.has_herd()) == (0, False)
    assert (await stage.dispatcher.run_once()).claimed == 1
    assert stage.run() == urgent
    assert stage.agenda.has_herd()
    assert await stage.early.claim() == 400
    await stage.at(INSTANT)
    assert await stage.early.start() == 900
    assert Counter(await run_all(stage)) == Counter(keys)
    assert stage.is_clear()


CHANGES: dict[str, Any] = {
    "cancel": lambda change, task_id: change.cancel(task_id, interrupt=False),
    "pause": lambda change, task_id: change.pause(task_id),
    "delete": lambda change, task_id: change.delete(task_id),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_a_user_changes_of_a_surplus_is_not_called(stage: Stage, name: str) -> None:
    keys = await held(stage)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await CHANGES[name](change, keys[-1].id)
    await stage.at(INSTANT)
    assert await stage.early.start() == MANY - 1
    assert Counter(await run_all(stage)) == Counter(keys[:-1])
    assert stage.is_clear()


async def test_what_is_offered_can_be_interrupted(stage: Stage) -> None:
    """As for a cancellation that comes right after the instant."""
    keys = await held(stage)
    await stage.at(INSTANT)
    await stage.early.start()
    for delivery in stage.pipe.take_back(stage.pipe.held(keys[-1])):
        stage.pipe.report(Report(delivery))
    assert Counter(await run_all(stage)) == Counter(keys[:-1])
    assert await stage.states([keys[-1]]) == WAITING
    assert stage.is_clear()


async def test_a_large_herd_is_claimed_further_ahead(stage: Stage) -> None:
    stage.startable = 1500
    await stage.stored(1500)
    await stage.before(126)
    assert await stage.early.claim() == 0
    await stage.before(125)
    room = stage.pipe.room()
    assert await stage.early.claim() == 1500
    assert stage.pipe.room() == room  # so far ahead it is for others
    await stage.at(INSTANT - timedelta(microseconds=1))
    assert (await stage.early.start(), stage.run()) == (0, [])
    await stage.at(INSTANT)
    assert await stage.early.start() == 1500


async def test_what_finds_busy_slots_far_ahead_is_looked_at_again_when_it_is_near(
    stage: Stage,
) -> None:
    stage.startable = 1500
    await stage.stored(1500)
    await stage.stored(SLOTS // 2, due_at=START, execute_at=START)
    await stage.before(120)
    assert (await stage.dispatcher.run_once()).claimed == SLOTS // 2
    assert stage.pipe.surplus_room() == 0
    assert (await stage.early.claim(), stage.agenda.has_herd()) == (0, True)
    await stage.before(50)
    room = stage.pipe.early_room()
    assert await stage.early.claim() == room > 0


async def test_slots_that_become_busy_leave_the_rest_for_a_later_look(stage: Stage) -> None:
    stage.startable = 1500
    await stage.stored(1500)
    await stage.before(120)

    async def fill() -> None:
        stage.pipe.send([a_delivery(10_000 + n) for n in range(SLOTS)])

    stage.store.on_claim = fill
    assert await stage.early.claim() == 500
    assert stage.agenda.has_herd()
    assert await stage.early.claim() == 0
    await stage.at(INSTANT)
    assert stage.agenda.ready == 1000


async def test_a_herd_that_cannot_be_claimed_early_is_asked_for_once(stage: Stage) -> None:
    stage.startable = 10_000
    keys = await stage.stored(3500)
    await stage.connection.execute("UPDATE gnomon.task SET losses = 1")
    await stage.before(200)
    assert await stage.early.claim() == 0
    assert not stage.agenda.has_herd()
    await stage.at(INSTANT)
    assert stage.agenda.ready == len(keys)


async def test_nothing_is_claimed_far_ahead_by_a_clock_that_was_set_back(stage: Stage) -> None:
    keys = await stage.stored(MANY)
    await stage.before()
    await stage.at(INSTANT - timedelta(hours=1))
    assert (await stage.early.claim(), stage.pipe.next_start()) == (0, None)
    assert stage.is_clear()
    await stage.at(INSTANT)
    ran = []
    while (await stage.dispatcher.run_once()).claimed:
        ran += await run_all(stage)
    assert Counter(ran) == Counter(keys)
