"""Feeds that fail: none holds up others, and a node that cannot publish lets another one try."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest
from tests.brokers import ValkeyServer
from tests.integration.feeding import connections, events, feed, notes, put
from tests.integration.support import Connection
from tests.integration.test_feeds import publisher_of, valkey
from tests.integration.test_live_watch import HandTurnedClock

from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.node.maintenance.feeds.feed_publisher import FeedPublisher
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.observe.events import Event
from gnomon.observe.node_events import OutcomesPublished
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.feeds.feed_notes import PostgresFeedNotes
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds

__all__ = ["valkey"]  # a fixture

NOWHERE = {"url": "redis://127.0.0.1:1"}
FAILED = OutcomesPublished(0, failed=True)


class Fleet:
    """Nodes that publish, whose time is turned by hand."""

    def __init__(self, database: Database, server: ValkeyServer, stack: AsyncExitStack) -> None:
        self.clock = HandTurnedClock()
        self.told: list[Event] = []
        self._database = database
        self._server = server
        self._stack = stack

    def node(self, **values: Any) -> FeedPublisher:
        broker = QueuePublisher(connections(self._server, **values))
        self._stack.push_async_callback(broker.close)
        return publisher_of(self._database, broker, self.told, self.clock)


@pytest.fixture
async def fleet(database: Database, valkey: ValkeyServer) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        yield Fleet(database, valkey, stack)


async def note(connection: Connection, feed_id: UUID, number: int = 1, state: int = 10) -> None:
    await connection.execute(
        "INSERT INTO gnomon.feed_note (tenant_id, feed_id, task_id, task_type, state, at)"
        " SELECT 'default', $1, gen_random_uuid(), 't', $3, gnomon.now()"
        " FROM generate_series(1, $2)", feed_id, number, state,
    )  # fmt: skip


async def test_a_node_that_cannot_reach_the_broker_lets_another_one_publish(
    database: Database, connection: Connection, fleet: Fleet
) -> None:
    await note(connection, await put(database, feed()))
    cut_off, well = fleet.node(**NOWHERE), fleet.node()
    assert await cut_off.run_once() == 0
    assert await well.run_once() == 1
    shown = await PostgresFeeds(database).get(DEFAULT_TENANT, "results")
    assert (shown.failing_since, shown.last_error) == (None, None)


async def test_a_lone_node_takes_the_chore_back(
    database: Database, connection: Connection, fleet: Fleet, valkey: ValkeyServer
) -> None:
    await note(connection, await put(database, feed()))
    alone = fleet.node()
    valkey.kill()
    assert await alone.run_once() == 0
    shown = await PostgresFeeds(database).get(DEFAULT_TENANT, "results")
    assert shown.last_error is not None
    assert valkey.url.rpartition(":")[2] not in shown.last_error, "tenants see no addresses"
    valkey.start()
    assert await alone.retry_once() == 0, "others may have it first"
    fleet.clock.at += 11.0
    assert await alone.retry_once() == 1


async def test_who_could_publish_just_now_keeps_the_chore(
    database: Database, connection: Connection, fleet: Fleet, valkey: ValkeyServer
) -> None:
    feed_id = await put(database, feed())
    first, second = fleet.node(), fleet.node()
    await note(connection, feed_id)
    assert await first.run_once() == 1
    valkey.kill()
    await note(connection, feed_id)
    assert await first.run_once() == 0
    valkey.start()
    assert await second.run_once() == 0
    fleet.clock.at += 1.0
    assert await first.retry_once() == 1


async def test_a_feed_that_fails_is_tried_less_and_less_and_holds_up_no_other(
    database: Database, connection: Connection, fleet: Fleet, valkey: ValkeyServer
) -> None:
    valkey.client.xadd("results", {"made": "1"})
    bad, good = await put(database, feed("bad")), await put(database, feed())
    await note(connection, bad, 500)
    await note(connection, good)
    node = fleet.node(create_streams=False)
    assert await node.run_once() == 1
    stats: Any = valkey.client.info("commandstats")
    assert stats["cmdstat_xadd"]["calls"] < 100, "the first refusal is the last that is tried"
    tries = []
    for second in range(1, 130):
        await note(connection, good)
        fleet.clock.at = float(second)
        fleet.told.clear()
        assert await node.run_once() == 1
        await node.retry_once()
        if FAILED in fleet.told:
            tries.append(second)
    assert tries == [1, 3, 7, 15, 31, 61, 91, 121]
    valkey.client.xadd("bad", {"made": "1"})
    fleet.clock.at += 30.0
    assert (await node.retry_once(), await node.run_once()) == (20, 480)
    assert await notes(connection) == []


async def test_an_error_of_one_feed_is_no_others(
    database: Database, connection: Connection, fleet: Fleet
) -> None:
    odd, good = await put(database, feed("odd")), await put(database, feed())
    await note(connection, odd, state=99)
    await note(connection, good)
    assert await fleet.node().run_once() == 1
    shown = await PostgresFeeds(database).get(DEFAULT_TENANT, "odd")
    assert "the log of the nodes says why" in (shown.last_error or "")


async def test_what_was_read_before_a_feed_changed_is_published_nowhere(
    database: Database, connection: Connection, fleet: Fleet, valkey: ValkeyServer
) -> None:
    await note(connection, await put(database, feed()))
    waiting = PostgresFeedNotes(database)
    (before,) = await waiting.waiting("orders")
    await put(database, feed(topic="new"))
    assert await waiting.first(before, 10) == []
    (now,) = await waiting.waiting("orders")
    assert len(await waiting.first(now, 10)) == 1
    await PostgresFeeds(database).delete(DEFAULT_TENANT, "results")
    assert await waiting.first(now, 10) == []
    assert await fleet.node().run_once() == 0
    assert events(valkey, "new") == []
