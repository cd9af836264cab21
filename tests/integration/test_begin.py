"""The consent that tasks need before they are called, where their mode promises something about
that moment: PostgresDispatch.begin against a real PostgreSQL."""

from uuid import UUID

import pytest
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    live,
    settlement,
    store,
    submission,
)

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DeliveryMode
from gnomon.pipe.envelope import Delivery
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster

LOST = Verdict(VerdictKind.RETRY, losses=1)


class Stage:
    """Tasks that a node has claimed and not begun."""

    def __init__(self, database: Database, connection: Connection, node: UUID) -> None:
        self.database = database
        self.connection = connection
        self.node = node
        self.dispatch = PostgresDispatch(database, 10.0)

    async def claimed(self, count: int = 1) -> list[Delivery]:
        now = await database_now(self.connection)
        new = [submission(now, delivery=DeliveryMode.EXACTLY_ONCE) for _ in range(count)]
        return (await self.dispatch.claim(self.node, await store(self.database, *new))).deliveries

    async def begun(self, delivery: Delivery) -> bool:
        row = await live(self.connection, delivery.key)
        assert row is not None
        return bool(row["begun"])


@pytest.fixture
async def stage(database: Database, connection: Connection) -> Stage:
    return Stage(database, connection, await joined(database))


async def test_a_claim_that_stands_may_begin(stage: Stage) -> None:
    deliveries = await stage.claimed(3)
    assert all(delivery.asks for delivery in deliveries)
    asking = deliveries[:2]
    before = await live(stage.connection, asking[0].key)
    # Asked again, because the answer was lost, it says the same.
    for _ in range(2):
        consent = await stage.dispatch.begin(asking)
        assert consent == {(delivery.key, delivery.fence) for delivery in asking}
    assert [await stage.begun(delivery) for delivery in deliveries] == [True, True, False]
    after = await live(stage.connection, asking[0].key)
    assert before is not None
    assert after is not None
    assert after["started_at"] > before["started_at"]  # the try starts when it begins
    assert (after["state"], after["fence"]) == (State.RUNNING, before["fence"])


async def test_what_was_taken_over_may_not_begin(stage: Stage) -> None:
    swept, reclaimed, kept = await stage.claimed(3)
    await stage.dispatch.settle(
        [settlement(each, LOST, OutcomeKind.LOST) for each in (swept, reclaimed)]
    )
    other = await joined(stage.database)
    assert (await stage.dispatch.claim(other, [reclaimed.key])).deliveries
    assert await stage.dispatch.begin([swept, reclaimed, kept]) == {(kept.key, kept.fence)}
    assert not await stage.begun(swept)
    assert not await stage.begun(reclaimed)


async def test_what_this_very_node_claimed_again_may_only_begin_once(stage: Stage) -> None:
    (first,) = await stage.claimed()
    await stage.dispatch.settle([settlement(first, LOST, OutcomeKind.LOST)])
    (second,) = (await stage.dispatch.claim(stage.node, [first.key])).deliveries
    assert await stage.dispatch.begin([first]) == set()
    assert await stage.dispatch.begin([first, second]) == {(second.key, second.fence)}


async def test_a_node_that_was_declared_dead_may_begin_nothing(stage: Stage) -> None:
    deliveries = await stage.claimed(2)
    roster = PostgresRoster(stage.database)
    (record,) = await roster.roster()
    assert await roster.declare_dead(stage.node, record.beat)
    assert await stage.dispatch.begin(deliveries) == set()
    assert not any([await stage.begun(delivery) for delivery in deliveries])


async def test_what_is_to_be_cancelled_may_not_begin(stage: Stage) -> None:
    cancelled, kept = await stage.claimed(2)
    await stage.connection.execute(
        "UPDATE gnomon.task SET cancel_requested = true WHERE id = $1", cancelled.key.id
    )
    assert await stage.dispatch.begin([cancelled, kept]) == {(kept.key, kept.fence)}


async def test_what_is_being_changed_is_not_waited_for(stage: Stage) -> None:
    held, kept = await stage.claimed(2)
    async with stage.connection.transaction():
        await stage.connection.execute(
            "SELECT FROM gnomon.task WHERE id = $1 FOR UPDATE", held.key.id
        )
        assert await stage.dispatch.begin([held, kept]) == {(kept.key, kept.fence)}


async def test_the_next_claim_has_not_begun(stage: Stage) -> None:
    (first,) = await stage.claimed()
    assert await stage.dispatch.begin([first])
    (running,) = await stage.dispatch.running_on(stage.node)
    assert running.begun
    await stage.dispatch.settle([settlement(first, LOST, OutcomeKind.LOST)])
    await stage.dispatch.claim(stage.node, [first.key])
    (running,) = await stage.dispatch.running_on(stage.node)
    assert not running.begun
