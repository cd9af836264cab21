"""Outcomes to a real broker: none lost, those of a task in order, whatever dies meanwhile."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.brokers import ValkeyServer
from tests.conftest import migrated, opened
from tests.integration.feeding import connections, events, events_now, feed, notes, put
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, end_of, store
from tests.integration.test_bulk_outage import QUICK
from tests.waiting import eventually

from gnomon.clock import Clock, SystemClock, new_incarnation
from gnomon.model.insight.outcome_feed import FeedOutcome
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission
from gnomon.node.maintenance.feeds.feed_chore import FeedChore
from gnomon.node.maintenance.feeds.feed_keeper import FeedKeeper
from gnomon.node.maintenance.feeds.feed_publisher import FeedPublisher
from gnomon.node.membership.lease import Lease
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.observe.events import Event
from gnomon.observe.node_events import OutcomesPublished
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.feeds.feed_notes import PostgresFeedNotes
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds
from gnomon.store.postgres.tasks.task_store import PostgresTasks

ONCE = RetryPolicy(max_retries=0)


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    folder = tmp_path / "valkey"
    folder.mkdir()
    server = ValkeyServer(folder)
    server.start()
    yield server
    server.kill()


def publisher_of(
    database: Database,
    publisher: QueuePublisher,
    told: list[Event] | None = None,
    clock: Clock | None = None,
) -> FeedPublisher:
    """A node's, by itself."""
    clock = clock or SystemClock()
    lease = Lease(new_incarnation(), 10.0)
    return FeedPublisher(
        FeedChore("orders", PostgresChores(database), lease, clock),
        PostgresFeedNotes(database),
        publisher,
        clock,
        (told if told is not None else []).append,
    )


async def ended(database: Database, connection: Connection, *function: str) -> list[Submission]:
    """Tasks of these handlers, which have ended."""
    now = await database_now(connection)
    made = [call_of(now, each, retry_policy=ONCE)[1] for each in function]
    keys = await store(database, *made)
    for key in keys:
        await end_of(connection, key)
    return made


async def test_an_outcome_is_a_cloud_event(
    database_dsn: str, database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    await put(database, feed())
    await put(database, feed("dead", FeedOutcome.DEAD_LETTERED))
    now = await database_now(connection)
    _, good = call_of(
        now, "echo", task_type="mail", name="n", tags=("a",), payload={"returns": {"sent": 1}}
    )
    _, bad = call_of(now, "no_such_function", retry_policy=ONCE, name="b", tags=("c",))
    async with running_node(database_dsn, targets_queues=connections(valkey)):
        keys = await store(database, good, bad)

        async def all_told() -> bool:
            return len(await events_now(valkey, "results")) == 2 and bool(
                await events_now(valkey, "dead")
            )

        for key in keys:
            await end_of(connection, key)
        await eventually(all_told)
    by_task = {each["subject"]: each for each in events(valkey, "results")}
    event = by_task[str(good.id)]
    data = event.pop("data")
    assert event.pop("time") == data.pop("finished_at")
    assert event == {
        "specversion": "1.0",
        "id": f"{good.id}.{data['fence']}.completed",
        "type": "gnomon.task.completed",
        "source": "/tenants/default",
        "subject": str(good.id),
        "datacontenttype": "application/json",
        "partitionkey": str(good.id),
    }
    assert data == {
        "task_id": str(good.id), "task_type": "mail", "name": "n", "tags": ["a"],
        "status": "COMPLETED", "attempt": 1, "fence": data["fence"], "error": None,
        "response_status": None, "result": {"sent": 1}, "shortened": False,
    }  # fmt: skip
    (dead,) = events(valkey, "dead")
    assert dead == by_task[str(bad.id)]
    assert dead["type"] == "gnomon.task.dead_lettered"
    assert "no_such_function" in dead["data"]["error"]
    assert (dead["data"]["name"], dead["data"]["tags"]) == ("b", ["c"])
    found: Any = valkey.client.xrange("dead")
    ((_, entry),) = found
    assert entry["content-type"].startswith("application/cloudevents+json")
    assert entry["key"] == str(bad.id)
    shown = await PostgresFeeds(database).get(DEFAULT_TENANT, "results")
    assert (shown.published, shown.backlog, shown.failing_since) == (2, 0, None)


async def test_a_broker_that_is_away_delays_and_loses_nothing(
    database_dsn: str, database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    """Two nodes; the one that publishes is killed, and so is the broker, in the middle. A dead
    letter that is retried meanwhile ends twice, in order."""
    await put(database, feed())
    tasks = PostgresTasks(database, CollectedHints(database), 60.0)
    known = connections(valkey)
    async with running_node(database_dsn, targets_queues=known, node_name="b"):
        async with running_node(database_dsn, targets_queues=known, node_name="a") as other:
            made = await ended(database, connection, *["echo"] * 40)
            valkey.kill()
            made += await ended(database, connection, *["echo"] * 40, "stumble")
            retried = made[-1]

            async def failing() -> bool:
                shown = await PostgresFeeds(database).get(DEFAULT_TENANT, "results")
                return shown.last_error is not None and shown.waiting_since is not None

            await eventually(failing)
            async with tasks.change(DEFAULT_TENANT) as change:
                await change.redrive(retried.id)
            await other.kill()
        made += await ended(database, connection, *["echo"] * 20)
        await asyncio.to_thread(valkey.start)

        async def all_told() -> bool:
            told = await events_now(valkey, "results")
            return len(told) == len(made) + 1 and not await notes(connection)

        await eventually(all_told, timeout=60)
    told = [each for each in events(valkey, "results") if each["subject"] == str(retried.id)]
    assert [each["type"] for each in told] == [
        "gnomon.task.dead_lettered",
        "gnomon.task.completed",
    ]
    assert {each["subject"] for each in events(valkey, "results")} == {str(e.id) for e in made}
    assert await notes(connection) == []
    shown = await PostgresFeeds(database).get(DEFAULT_TENANT, "results")
    assert (shown.failing_since, shown.last_error) == (None, None)


@pytest.mark.timeout(180)
async def test_restarts_of_postgresql_lose_no_outcome(tmp_path: Path, valkey: ValkeyServer) -> None:
    with EmbeddedServer(tmp_path / "data", settings_overrides=QUICK) as server:
        await migrated(server.dsn)
        known = connections(valkey)
        async with (
            opened(server.dsn) as database,
            running_node(server.dsn, targets_queues=known),
            running_node(server.dsn, targets_queues=known),
        ):
            await put(database, feed())
            async with database.connection() as connection:
                now = await connection.fetchval("SELECT gnomon.now()")
            made = [call_of(now, "echo")[1] for _ in range(1000)]
            await store(database, *made)

            async def some_told() -> bool:
                return len(await events_now(valkey, "results")) > 0

            await eventually(some_told, timeout=60)
            await asyncio.to_thread(server.restart, mode="immediate")

            async def all_told() -> bool:
                return len(await events_now(valkey, "results")) == len(made)

            await eventually(all_told, timeout=120)


async def test_two_that_believe_to_publish_tell_in_one_order(
    database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    """Nothing but repetition comes of it: the first event of each end is in order."""
    feed_id = await put(database, feed())
    await connection.execute(
        "INSERT INTO gnomon.feed_note (tenant_id, feed_id, task_id, task_type, state, fence, at)"
        " SELECT 'default', $1, ('00000000-0000-0000-0000-0000000000' || lpad((n % 7)::text, 2,"
        " '0'))::uuid, 't', 4, n, gnomon.now() FROM generate_series(1, 700) AS n", feed_id,
    )  # fmt: skip
    both = [QueuePublisher(connections(valkey)) for _ in range(2)]
    try:
        first, second = [publisher_of(database, each) for each in both]

        async def freed() -> int:
            await connection.execute("DELETE FROM gnomon.chore")  # as if it were held no longer
            return await second.run_once()

        await asyncio.gather(first.run_once(), freed())
        await freed()
    finally:
        for each in both:
            await each.close()
    seen: dict[str, list[int]] = {}
    for event in events(valkey, "results"):
        seen.setdefault(event["subject"], []).append(event["data"]["fence"])
    assert sum(map(len, seen.values())) == 700
    assert all(fences == sorted(fences) for fences in seen.values())
    assert await notes(connection) == []


async def test_a_feed_that_is_full_tells_its_gap(
    database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    feed_id = await put(database, feed())
    insert = (
        "INSERT INTO gnomon.feed_note (tenant_id, feed_id, task_id, task_type, state, at)"
        " SELECT 'default', $1, gen_random_uuid(), 't', 10, gnomon.now()"
        " FROM generate_series(1, 10)"
    )
    await connection.execute(insert, feed_id)
    lease, chores = Lease(new_incarnation(), 10.0), PostgresChores(database)
    keeper = FeedKeeper(PostgresFeedNotes(database), chores, lease, 11)
    await keeper.run_once()
    feeds = PostgresFeeds(database)
    assert (await feeds.get(DEFAULT_TENANT, "results")).gap_since is None
    full = FeedKeeper(PostgresFeedNotes(database), chores, lease, 10)
    await full.run_once()
    gap = (await feeds.get(DEFAULT_TENANT, "results")).gap_since
    assert gap is not None
    now = await database_now(connection)
    (unheard,) = await store(database, call_of(now, "echo")[1])
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", unheard.id)
    told: list[Event] = []
    broker = QueuePublisher(connections(valkey))
    try:
        assert await publisher_of(database, broker, told).run_once() == 11
    finally:
        await broker.close()
    assert told == [OutcomesPublished(10, failed=False), OutcomesPublished(1, failed=False)]
    found = events(valkey, "results")
    assert (found[-1]["type"], found[-1]["subject"]) == ("gnomon.feed.gap", "results")
    assert found[-1]["data"]["since"] == found[-1]["time"] < found[-1]["data"]["until"]
    since = datetime.fromisoformat(found[-1]["data"]["since"])
    assert since == gap - timedelta(minutes=1), "what was being settled then may be missing, too"
    assert str(unheard.id) not in json.dumps(found)
    (heard,) = await store(database, call_of(now, "echo")[1])
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", heard.id)
    assert [each[0] for each in await notes(connection)] == [heard.id]


async def test_what_may_not_be_published_waits_and_says_why(
    database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    await put(database, feed())
    now = await database_now(connection)
    (key,) = await store(database, call_of(now, "echo")[1])
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", key.id)
    feeds = PostgresFeeds(database)
    for values, why in (
        ({"tenants": {"default": ("other",)}}, "lets the tenant publish to 'results'"),
        ({"create_streams": False}, "there is no stream results"),
    ):
        broker = QueuePublisher(connections(valkey, **values))
        try:
            assert await publisher_of(database, broker).run_once() == 0
        finally:
            await broker.close()
        shown = await feeds.get(DEFAULT_TENANT, "results")
        assert shown.last_error is not None
        assert why in shown.last_error
        await connection.execute("DELETE FROM gnomon.chore")
    assert len(await notes(connection)) == 1


async def test_removed_feeds_leave_nothing_behind(
    database: Database, connection: Connection
) -> None:
    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('other')")
    feed_id = await put(database, feed())
    await put(database, feed(tenant="other"))
    await connection.execute("DELETE FROM gnomon.tenant WHERE id = 'other'")
    await connection.execute(
        "INSERT INTO gnomon.feed_note (tenant_id, feed_id, state, at)"
        " SELECT 'default', $1, 10, gnomon.now() FROM generate_series(1, 15000)", feed_id,
    )  # fmt: skip
    await PostgresFeeds(database).delete(DEFAULT_TENANT, "results")
    await put(database, feed())  # a new one of the same name begins with nothing
    assert (await PostgresFeeds(database).get(DEFAULT_TENANT, "results")).backlog == 0
    keeper = FeedKeeper(
        PostgresFeedNotes(database), PostgresChores(database), Lease(new_incarnation(), 10.0), 100
    )
    await keeper.run_once()
    assert await notes(connection) == []
    await connection.execute("UPDATE gnomon.feed SET removed_at = removed_at - interval '2 hours'")
    await keeper.run_once()
    assert await connection.fetchval("SELECT count(*) FROM gnomon.feed") == 1
