"""Batches on PostgreSQL beside a model of them, whatever ends their members, and in whatever
order."""

import random
from collections import Counter
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.batch_world import World, states, world

from gnomon.model.errors import GnomonError
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, TaskKey
from gnomon.model.workflow_errors import BatchIsClosed
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.queries import query, statements
from gnomon.store.postgres.workflows.workflow_steps import Taken
from gnomon.workflow.batch import BatchStatus, MemberCounts

__all__ = ["world"]

_DEAD = Verdict(VerdictKind.DEAD_LETTER)
_FIELD = {"succeed": "succeeded", "die": "dead", "cancel": "cancelled", "delete": "cancelled"}


async def test_any_history_counts_as_the_model_says(
    world: World, connection: "asyncpg.Connection[Any]"
) -> None:
    chance = random.Random(18)
    for _ in range(40):
        await _history(world, connection, chance)


async def _history(
    world: World, connection: "asyncpg.Connection[Any]", chance: random.Random
) -> None:
    batch = await world.open()
    now: dict[UUID, str] = {}  # what each member is
    closed = completed = False
    for _ in range(chance.randint(3, 14)):
        running = [each for each, what in now.items() if what == "pending"]
        dead = [each for each, what in now.items() if what == "dead"]
        act = chance.choice(["put", "put", "succeed", "die", "cancel", "delete", "close",
                             "redrive", "discard", "chore"])  # fmt: skip
        if act == "put" and not closed:
            now |= dict.fromkeys(await world.put(batch, chance.randint(1, 3)), "pending")
        elif act == "put":
            with pytest.raises(BatchIsClosed):
                await (world.put(batch) if chance.random() < 0.5 else world.put_one(batch))
        elif act == "close":
            await world.close(batch)
            closed = True
        elif act == "chore":
            await world.follow()
        elif act in ("redrive", "discard") and dead:
            one = chance.choice(dead)
            async with world.tasks.change(DEFAULT_TENANT) as change:
                if act == "redrive":
                    await change.redrive(one)
                else:
                    await change.resolve(one, Resolution.DISCARDED, None, None)
            now[one] = "pending" if act == "redrive" else "lost"
        elif running:
            some = chance.sample(running, chance.randint(1, min(3, len(running))))
            await _end(world, connection, act, some)
            now |= dict.fromkeys(some, _FIELD.get(act, "succeeded"))
        counted = Counter(now.values())
        done = closed and not counted["pending"]
        completed = completed or done
        found = await world.read(batch)
        assert found.progress == MemberCounts(
            len(now), *(counted[each] for each in ("succeeded", "dead", "lost", "cancelled"))
        )
        if not done:
            if chance.random() < 0.5:  # whoever counts: nothing starts before all have ended
                await world.follow()
            success, complete = await states(connection, batch.on_success, batch.on_complete)
            assert success is State.BLOCKED
            assert complete is (State.WAITING if completed else State.BLOCKED)
            continue
        await world.follow()
        success, complete = await states(connection, batch.on_success, batch.on_complete)
        assert complete is State.WAITING
        succeeded = counted["succeeded"] == len(now)
        lost = not counted["dead"] and not succeeded
        assert success is (
            State.WAITING if succeeded else State.CANCELLED if lost else State.BLOCKED
        )
        if succeeded or lost:
            return
    await world.follow()
    success, complete = await states(connection, batch.on_success, batch.on_complete)
    assert complete is (State.WAITING if completed else State.BLOCKED)
    assert success is State.BLOCKED


async def _end(
    world: World, connection: "asyncpg.Connection[Any]", act: str, ids: list[UUID]
) -> None:
    if act == "die":
        await world.settle(ids, _DEAD)
    elif act in ("cancel", "delete"):
        for each in ids:
            async with world.tasks.change(DEFAULT_TENANT) as change:
                if act == "cancel":
                    await change.cancel(each, interrupt=False)
                else:
                    await change.delete(each)
    else:
        await world.settle(ids)


def test_only_who_counts_says_that_it_has_counted() -> None:
    """What all others end is noted by the trigger."""
    counting = {name for name in statements() if "counts_members" in query(name)}
    assert counting == {"settle"}
    assert "gnomon.pass_batches(" in query("settle")


async def test_the_last_settlement_starts_the_callbacks_itself(world: World) -> None:
    batch = await world.open()
    ids = await world.put(batch, 3)
    await world.close(batch)
    assert await world.settle(ids[:2]) == []
    started = await world.settle(ids[2:])
    assert {*started} == {batch.on_success, batch.on_complete}
    assert (await world.read(batch)).completed_at is not None


async def test_a_dead_letter_that_is_retried_completes_nothing_too_early(world: World) -> None:
    """That it is no dead letter any more is counted with its end, and not later."""
    batch = await world.open()
    first, second = await world.put(batch, 2)
    await world.settle([first], _DEAD)
    await world.close(batch)
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.redrive(first)
    assert await world.settle([first]) == []
    assert {*await world.settle([second])} == {batch.on_success, batch.on_complete}


async def test_plain_sql_and_own_transactions_are_counted(
    world: World, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    batch = await world.open()
    deleted, dead, completed = await world.put(batch, 3)
    node = await connection.fetchval("SELECT incarnation FROM gnomon.node")
    key = TaskKey(DEFAULT_TENANT, completed)
    (claimed,) = (await world._dispatch.claim(node, [key])).deliveries
    await connection.execute(
        "SELECT gnomon.complete_run($1, $2, $3, $4, $5)",
        DEFAULT_TENANT, completed, claimed.fence, node, "1",
    )  # fmt: skip
    async with database.transaction() as other:
        # Also in the transaction of a settlement.
        await other.fetch(query("settle"), *([[]] * 20), *([None] * 5))
        await other.execute("DELETE FROM gnomon.task WHERE id = $1", deleted)
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", dead)
    assert (await world.read(batch)).progress == MemberCounts(3, 1, 1, 0, 1)
    assert await connection.fetchval(
        "SELECT batch_id FROM gnomon.task_archive WHERE id = $1", completed
    ) == batch.batch_id  # fmt: skip
    # Whoever holds the row of a callback keeps nobody waiting: the chore starts it later.
    await connection.execute("UPDATE gnomon.task SET state = 0 WHERE id = $1", dead)
    await world.close(batch)
    async with connection.transaction():
        await connection.fetch(
            "SELECT FROM gnomon.task WHERE id = $1 FOR UPDATE", batch.on_complete
        )
        assert await world.settle([dead]) == []
        await world.follow()
    assert await states(connection, batch.on_complete) == [State.BLOCKED]
    await world.follow()
    assert await states(connection, batch.on_complete) == [State.WAITING]
    assert await connection.fetchval("SELECT count(*) FROM gnomon.batch WHERE step") == 0


async def test_old_batches_are_removed_but_for_those_with_dead_letters(
    world: World, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    done, held = await world.open(), await world.open()
    await world.settle(await world.put(held), _DEAD)
    for batch in (done, held):
        await world.close(batch)
    await world.follow()
    await connection.execute("UPDATE gnomon.batch SET finished_at = finished_at - interval '31 d'")
    removal = await PostgresChores(database).remove(RowKind.BATCHES, 100, 30.0)
    assert (removal.removed, removal.more) == (1, False)
    assert (await world.read(held)).progress.dead == 1


async def test_what_follows_after_a_callback_was_held_and_after_a_batch_has_expired(
    world: World, connection: "asyncpg.Connection[Any]"
) -> None:
    held, late = await world.open(), await world.open()
    await world.settle(await world.put(held), _DEAD)
    async with connection.transaction():
        # It is complete, and before the chore can start the callback the batch is cancelled.
        await connection.fetch("SELECT FROM gnomon.task WHERE id = $1 FOR UPDATE", held.on_complete)
        await world.close(held)
        await world.cancel(held)
    (member,) = await world.put(late)
    await connection.execute("UPDATE gnomon.batch SET deadline = gnomon.now() WHERE state = 0")
    await world.follow()
    assert (await world.read(late)).status is BatchStatus.EXPIRED
    # Its members go on: they can be cancelled together.
    await world.cancel(late)
    await world.follow()
    assert await states(connection, held.on_complete, member) == [State.CANCELLED, State.CANCELLED]
    assert (await world.read(late)).status is BatchStatus.CANCELLED
    assert await connection.fetchval("SELECT count(*) FROM gnomon.batch WHERE step") == 0


async def test_notes_are_counted_in_chunks_and_nothing_is_decided_before_the_last(
    world: World, connection: "asyncpg.Connection[Any]"
) -> None:
    batch = await world.open()
    (last,) = await world.put(batch)
    await connection.execute(
        "INSERT INTO gnomon.batch_note (tenant_id, batch_id, added, succeeded)"
        " SELECT $1::text, $2::uuid, 1, 0 FROM generate_series(1, 15000)"
        " UNION ALL SELECT $1::text, $2::uuid, 0, 1 FROM generate_series(1, 15000)",
        DEFAULT_TENANT, batch.batch_id,
    )  # fmt: skip
    async with world.tasks.change(DEFAULT_TENANT) as change:
        assert (await change.batches.close(batch.batch_id)).progress.total == 15_001
        assert change.batches.steps, "the chore goes on"
    assert await connection.fetchval("SELECT count(*) FROM gnomon.batch_note") == 20_001
    # The first chunks have members that were put in, and then members that have ended.
    assert await world.settle([last]) == []
    assert await states(connection, batch.on_success, batch.on_complete) == [State.BLOCKED] * 2
    await world.follow()
    assert await connection.fetchval("SELECT count(*) FROM gnomon.batch_note") == 0
    assert await states(connection, batch.on_success, batch.on_complete) == [State.WAITING] * 2


async def test_a_cancel_wakes_the_chore(world: World) -> None:
    batch = await world.open()
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.batches.cancel(batch.batch_id, "for a test", interrupt=False)
        assert change.batches.steps


async def test_members_that_are_noted_count_for_the_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.store.postgres.batches.members.MOST_MEMBERS", 3)
    batch = await world.open()
    await world.put(batch, 2)
    with pytest.raises(GnomonError, match="3"):
        await world.put(batch, 2)
    await world.put_one(batch)
    with pytest.raises(GnomonError, match="3"):
        await world.put_one(batch)


async def test_what_fails_for_one_batch_keeps_no_other_back(
    world: World, connection: "asyncpg.Connection[Any]"
) -> None:
    bad, good = await world.open(), await world.open()
    await connection.execute(
        f"""CREATE FUNCTION gnomon.test_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = 'check_violation'; END $$;
        CREATE TRIGGER test_refuse BEFORE UPDATE ON gnomon.batch FOR EACH ROW
        WHEN (OLD.id = '{bad.batch_id}' AND NEW.total > 0) EXECUTE FUNCTION gnomon.test_refuse()"""
    )
    for batch in (bad, good):
        await world.put(batch, 2)
    taken = Taken()
    await world.steps.take(taken)
    assert [(each.key.id, each.of) for each in taken.failed] == [(bad.batch_id, "batch")]
    total = "SELECT total FROM gnomon.batch WHERE id = $1"
    assert await connection.fetchval(total, good.batch_id) == 2
    again = Taken()
    await world.steps.take(again, [bad.batch_id])
    assert (again.failed, again.steps) == ([], 0)
    await connection.execute("DROP TRIGGER test_refuse ON gnomon.batch")
    await world.follow()
    assert await connection.fetchval(total, bad.batch_id) == 2
