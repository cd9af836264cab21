"""Whatever ends a task is noted for the feeds that want it, once, and in its transaction."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.feeding import feed, notes, put
from tests.integration.support import Connection, joined, live, settlement, store, submission

from gnomon.clock import SystemClock
from gnomon.model.insight.outcome_feed import FeedOutcome
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.queries import query, statements
from gnomon.store.postgres.tasks.task_store import PostgresTasks

DEAD = Verdict(VerdictKind.DEAD_LETTER)
EXPIRE = Verdict(VerdictKind.EXPIRE)


class World:
    """Tasks of one tenant, and the node that runs them."""

    def __init__(self, database: Database, incarnation: UUID, connection: Connection) -> None:
        self.database = database
        self.connection = connection
        self.tasks = PostgresTasks(database, CollectedHints(database), 60.0)
        self.dispatch = PostgresDispatch(database, 10.0)
        self.incarnation = incarnation

    async def stored(self, **values: Any) -> TaskKey:
        (key,) = await store(self.database, submission(SystemClock().now(), **values))
        return key

    async def claimed(self, key: TaskKey) -> Delivery:
        (delivery,) = (await self.dispatch.claim(self.incarnation, [key])).deliveries
        return delivery

    async def settled(self, key: TaskKey, verdict: Verdict = COMPLETE) -> None:
        outcome = OutcomeKind.SUCCEEDED if verdict is COMPLETE else OutcomeKind.FAILED
        delivery = await self.claimed(key)
        (done,) = await self.dispatch.settle([settlement(delivery, verdict, outcome)])
        assert done is not None


@pytest.fixture
async def world(database: Database, connection: "asyncpg.Connection[asyncpg.Record]") -> World:
    return World(database, await joined(database), connection)


async def complete(world: World, key: TaskKey) -> None:
    await world.settled(key)


async def die(world: World, key: TaskKey) -> None:
    await world.settled(key, DEAD)


async def expire(world: World, key: TaskKey) -> None:
    await world.settled(key, EXPIRE)


async def cancel(world: World, key: TaskKey) -> None:
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.cancel(key.id, interrupt=False)


async def interrupt(world: World, key: TaskKey) -> None:
    delivery = await world.claimed(key)
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.cancel(key.id, interrupt=True)
    failed = settlement(delivery, Verdict(VerdictKind.RETRY, 0.0), OutcomeKind.FAILED)
    await world.dispatch.settle([failed])


async def complete_in_own_transaction(world: World, key: TaskKey) -> None:
    delivery = await world.claimed(key)
    await world.connection.execute(
        "SELECT gnomon.complete_run($1, $2, $3, $4, $5)",
        key.tenant_id, key.id, delivery.fence, world.incarnation, "1",
    )  # fmt: skip


async def die_by_sql(world: World, key: TaskKey) -> None:
    await world.connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", key.id)


async def bury_node(world: World, key: TaskKey) -> None:
    await world.connection.execute(query("bury_node"), key.tenant_id, key.id, "it does not fit")


ENDS: dict[Callable[[World, TaskKey], Awaitable[None]], State] = {
    complete: State.COMPLETED,
    die: State.DEAD,
    expire: State.EXPIRED,
    cancel: State.CANCELLED,
    interrupt: State.CANCELLED,
    complete_in_own_transaction: State.COMPLETED,
    die_by_sql: State.DEAD,
    bury_node: State.DEAD,
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_an_end_is_noted_for_each_feed_that_wants_it(
    world: World, end: Callable[[World, TaskKey], Awaitable[None]]
) -> None:
    unheard = await world.stored(task_type="mail")
    await end(world, unheard)  # before there is a feed
    await put(world.database, feed("all"))
    await put(world.database, feed("mail", types=["mail"]))
    await put(world.database, feed("other", types=["other"]))
    await put(world.database, feed("dead", FeedOutcome.DEAD_LETTERED))
    await world.connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('other')")
    await put(world.database, feed("others", tenant="other"))
    key = await world.stored(task_type="mail")
    await end(world, key)
    found = await notes(world.connection)
    assert {(each[0], each[1], each[2]) for each in found} == {(key.id, "mail", ENDS[end])}
    assert len(found) == (3 if ENDS[end] is State.DEAD else 2)


def test_only_the_settling_statement_says_that_it_notes_outcomes() -> None:
    """What all others end is noted by the triggers."""
    noting = {name for name in statements() if "notes_outcomes" in query(name)}
    assert noting == {"settle"}
    assert "INSERT INTO gnomon.feed_note" in query("settle")


async def test_what_a_settlement_says_ends_with_it(world: World) -> None:
    await put(world.database, feed())
    key = await world.stored()
    async with world.database.transaction() as connection:
        await connection.fetch(query("settle"), *([[]] * 20), *([None] * 5))
        await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", key.id)
    assert [each[2] for each in await notes(world.connection)] == [State.DEAD]


@pytest.mark.parametrize("end", [die, bury_node])
async def test_a_dead_letter_that_is_retried_ends_twice_in_order(
    world: World, end: Callable[[World, TaskKey], Awaitable[None]]
) -> None:
    await put(world.database, feed())
    key = await world.stored()
    await end(world, key)
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.redrive(key.id)
    await end(world, key)
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.redrive(key.id)
    await complete(world, key)
    found = await notes(world.connection)
    assert [each[2] for each in found] == [State.DEAD, State.DEAD, State.COMPLETED]
    assert len({each[3] for each in found}) == 3, "each has a fence of its own"


async def test_what_is_no_end_is_not_noted(world: World) -> None:
    await put(world.database, feed())
    retried, deleted, resolved = [await world.stored() for _ in range(3)]
    await world.settled(retried, Verdict(VerdictKind.RETRY, 0.0))
    await die(world, resolved)
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.delete(deleted.id)
        await change.resolve(resolved.id, Resolution.ARCHIVED, by=None, note=None)
    assert [each[0] for each in await notes(world.connection)] == [resolved.id]
    assert await live(world.connection, resolved) is None


async def test_a_note_goes_with_its_transaction(world: World) -> None:
    await put(world.database, feed())
    key = await world.stored()
    with contextlib.suppress(ZeroDivisionError):
        async with world.tasks.change(DEFAULT_TENANT) as change:
            await change.cancel(key.id, interrupt=False)
            assert len(await change._connection.fetch("SELECT FROM gnomon.feed_note")) == 1
            raise ZeroDivisionError
    assert await notes(world.connection) == []
