"""Batches on PostgreSQL beside a model of them, whatever ends their members, and in whatever
order."""

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.support import joined
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id
from gnomon.model.errors import GnomonError
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, Submission, TaskKey
from gnomon.model.workflow_errors import BatchIsClosed
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.ports.work.batches import NewBatch
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.batches.batch_steps import PostgresBatchSteps
from gnomon.store.postgres.batches.batch_store import PostgresBatches
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.queries import query, statements
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.workflows.workflow_steps import Taken
from gnomon.usecases.workflows.batches import open_batch
from gnomon.workflow.batch import BatchOfTasks, BatchStatus, MemberCounts

HOUR = 3600.0
_DEAD = Verdict(VerdictKind.DEAD_LETTER)
_FIELD = {"succeed": "succeeded", "die": "dead", "cancel": "cancelled", "delete": "cancelled"}


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


async def _waits(connection: "asyncpg.Connection[Any]", number: int = 1) -> None:
    async def look() -> bool:
        waiting = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(waiting >= number)

    await eventually(look)


async def test_closing_waits_for_who_adds_and_who_adds_for_closing(
    world: World, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    batch = await world.open()
    ids = await world.put(batch, 1)
    async with world.tasks.change(DEFAULT_TENANT) as adding:
        await adding.insert([NewTask(world.task(batch.batch_id))])
        # Others add and settle meanwhile; only closing waits.
        await world.put(batch, 2)
        await world.put_one(batch)
        await world.settle(ids)
        closing = asyncio.ensure_future(world.close(batch))
        await _waits(connection)
        # Who comes after who closes is too late: else closing would wait for as long as any come.
        late = [asyncio.ensure_future(act(batch)) for act in (world.put, world.put_one)]
        await _waits(connection, len(late) + 1)
    assert (await closing).progress == MemberCounts(5, 1)
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert [type(each) for each in outcomes] == [BatchIsClosed, BatchIsClosed]
    other = await world.open()
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.batches.close(other.batch_id)
        late = [asyncio.ensure_future(act(other)) for act in (world.put, world.put_one)]
        await _waits(connection)
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert [type(each) for each in outcomes] == [BatchIsClosed, BatchIsClosed]
    assert (await world.read(other)).progress == MemberCounts()


async def test_settlers_closing_and_adding_at_once_start_each_callback_once(
    world: World, connection: "asyncpg.Connection[Any]"
) -> None:
    """The last settlements and the closing race; so do two batches that the same settlers count,
    in opposite orders."""
    chance = random.Random(81)
    for _ in range(12):
        pair = [await world.open(), await world.open()]
        ids = [each for batch in pair for each in await world.put(batch, 4)]
        chance.shuffle(ids)
        started: list[UUID] = []

        async def settle(some: list[UUID], started: list[UUID] = started) -> None:
            started += await world.settle(some)

        async def add(batch: BatchOfTasks) -> int:
            try:
                return len(await world.put(batch, 2))
            except BatchIsClosed:
                return 0

        acts: list[Any] = [settle(ids[:3]), settle(ids[3:6]), settle(ids[6:])]
        acts += [world.close(each) for each in pair] + [add(each) for each in pair]
        chance.shuffle(acts)
        await asyncio.gather(*acts)
        await world.follow()
        for batch in pair:
            found = await world.read(batch)
            pending = found.progress.pending
            assert pending in (0, 2)
            await _settle_rest(world, connection, batch)
            await world.follow()
            assert await states(connection, batch.on_success, batch.on_complete) == [
                State.WAITING,
                State.WAITING,
            ]
        assert len(started) == len(set(started))


async def _settle_rest(
    world: World, connection: "asyncpg.Connection[Any]", batch: BatchOfTasks
) -> None:
    rows = await connection.fetch(
        "SELECT id FROM gnomon.task WHERE batch_id = $1 AND workflow_node IS NULL", batch.batch_id
    )
    if rows:
        await world.settle([row["id"] for row in rows])


async def _die(
    world: World, connection: "asyncpg.Connection[Any]", batch: BatchOfTasks, *, closes: bool
) -> None:
    async with world.tasks.change(DEFAULT_TENANT) as change:
        if closes:
            await change.batches.close(batch.batch_id)
        else:
            await change.insert([NewTask(world.task(batch.batch_id)) for _ in range(10)])
        pid = await change._connection.fetchval("SELECT pg_backend_pid()")
        await connection.execute("SELECT pg_terminate_backend($1)", pid)
        await change._connection.fetchval("SELECT 1")


async def test_a_process_that_dies_while_it_adds_or_closes_leaves_nothing_behind(
    world: World, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    batch = await world.open()
    for closes in (False, True):
        with pytest.raises(GnomonError):
            await _die(world, connection, batch, closes=closes)
    found = await world.read(batch)
    assert found.progress == MemberCounts()
    assert found.closed_at is None
    ids = await world.put(batch, 2)
    await world.close(batch)
    await world.settle(ids)
    await world.follow()
    assert await states(connection, batch.on_success) == [State.WAITING]


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
        await other.fetch(query("settle"), *([[]] * 19))
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
