"""`/events/stream`: cut off and taken up again, it leaves nothing out and tells nothing twice."""

import asyncio
from contextlib import aclosing
from uuid import UUID

import pytest
from tests.conftest import serving
from tests.integration.api_calls import Api, call
from tests.integration.support import Connection
from tests.integration.test_event_log import entered
from tests.waiting import eventually

from gnomon.client.client import Client, SyncClient
from gnomon.client.errors import ApiProblem
from gnomon.clock import SystemClock
from gnomon.model.fleet.retention import RowKind
from gnomon.model.insight.event_kinds import INSTALLATION, NODE_LOST
from gnomon.store.ports.insight.events import LogPage
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.usecases.live import event_feed
from gnomon.usecases.live.seats import MOST_OF_ONE, StreamSeats

STREAM = "/api/v1/events/stream"


def url_of(api: Api) -> str:
    return str(api._base_url).rstrip("/")


async def told(client: Client, count: int, **asked: object) -> list[UUID]:
    """The ids of the next events."""
    found: list[UUID] = []
    async with asyncio.timeout(60), aclosing(client.follow_events(**asked)) as events:  # type: ignore[arg-type]
        async for event in events:
            found.append(event.eventid)
            if len(found) == count:
                break
    return found


async def test_a_stream_tells_events_as_they_happen(api: Api, connection: Connection) -> None:
    await entered(connection)
    async with asyncio.timeout(60), api.get(STREAM) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        assert await answer.content.readuntil(b"\n\n") == b":\nid: 1\n\n"
        event_id = await entered(connection, kind="tasks.dead_lettered")
        await entered(connection, "other")
        first = await answer.content.readuntil(b"\n\n")
        assert first.startswith(b"id: 2\ndata: {")
        second = await entered(connection)
        assert str(second).encode() in await answer.content.readuntil(b"\n\n"), "its own alone"
    async with Client(url_of(api)) as client, aclosing(client.follow_events(after=1)) as events:
        event = await anext(events)
    assert event.eventid == event_id
    assert event.id == f"{event_id}.2"
    assert (event.type, event.source) == ("gnomon.tasks.dead_lettered", "/tenants/default")
    assert event.severity == "error"


async def test_a_stream_goes_on_where_it_stopped(
    api: Api, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From memory, from the table, and from one to the other."""
    monkeypatch.setattr(event_feed, "MOST_KEPT", 4)
    monkeypatch.setattr(event_feed, "AT_ONCE", 3)
    ids = [await entered(connection) for _ in range(10)]
    async with Client(url_of(api)) as client:
        # Those of one millisecond and one look are in no order of their own.
        order = await told(client, 10, after=0)
        assert sorted(order) == sorted(ids)
        following = asyncio.ensure_future(told(client, 12, after=8))
        more = [await entered(connection) for _ in range(10)]
        assert sorted(await following) == sorted(order[8:] + more)


async def test_a_reader_of_an_api_that_restarts_misses_nothing(
    database_dsn: str, connection: Connection
) -> None:
    found: list[UUID] = []
    ids: list[UUID] = []

    async def follow(url: str) -> None:
        async with Client(url) as client, aclosing(client.follow_events(after=0)) as events:
            async for event in events:
                found.append(event.eventid)  # noqa: PERF401 - looked at meanwhile

    async def all_told() -> bool:
        return sorted(found) == sorted(ids)

    async with serving(database_dsn) as api:
        port = api._base_url.port  # type: ignore[union-attr]
        following = asyncio.ensure_future(follow(url_of(api)))
        ids += [await entered(connection) for _ in range(3)]
        await eventually(all_told)
    ids += [await entered(connection) for _ in range(3)]
    async with serving(database_dsn, api_port=port):
        ids.append(await entered(connection))
        await eventually(all_told)
        following.cancel()


async def test_events_past_retention_are_gone(
    api: Api, database: Database, connection: Connection
) -> None:
    await entered(connection, age=40 * 86_400)
    await PostgresChores(database).remove(RowKind.EVENTS, 100, 30.0)
    problem = await call(api, "GET", STREAM, 410, headers={"Last-Event-ID": "0"})
    assert problem["type"].endswith("gone")
    async with Client(url_of(api)) as client:
        with pytest.raises(ApiProblem) as caught:
            await told(client, 1, after=0)
    assert caught.value.status == 410
    await call(api, "GET", STREAM, 422, headers={"Last-Event-ID": "x"})


async def test_the_events_of_the_installation_are_for_operators(
    api: Api, connection: Connection
) -> None:
    await entered(connection)
    lost = await entered(connection, INSTALLATION, NODE_LOST)
    async with Client(url_of(api)) as client:
        assert await told(client, 1, after=0, installation=True) == [lost]


async def test_a_program_without_asyncio_follows_too(api: Api, connection: Connection) -> None:
    ids = [await entered(connection) for _ in range(2)]

    def first_two() -> list[UUID]:
        with SyncClient(url_of(api)) as client:
            events = client.follow_events(after=0)
            return [next(events).eventid, next(events).eventid]

    async with asyncio.timeout(60):
        assert await asyncio.to_thread(first_two) == ids


async def test_one_key_has_few_streams_open(database_dsn: str) -> None:
    async with serving(database_dsn) as api:
        headers = {"Authorization": "Bearer whoever"}
        streams = [await api.get(STREAM, headers=headers) for _ in range(MOST_OF_ONE)]
        problem = await call(api, "GET", STREAM, 429, headers=headers)
        assert problem["detail"].startswith(f"{MOST_OF_ONE} streams are open already")
        for each in streams:
            each.close()


async def test_a_late_commit_and_a_long_transaction_hold_no_stream_up(
    api: Api, connection: Connection, superuser: Connection
) -> None:
    async with superuser.transaction():
        late = await entered(superuser)
        seen = await entered(connection)
        async with Client(url_of(api)) as client:
            assert await told(client, 1, after=0) == [seen]
    async with Client(url_of(api)) as client:
        assert await told(client, 2, after=0) == [seen, late]


async def test_a_stream_outlives_the_connections_to_postgresql(
    api: Api, connection: Connection, superuser: Connection
) -> None:
    ids = [await entered(connection) for _ in range(2)]
    async with (
        asyncio.timeout(60),
        Client(url_of(api)) as client,
        aclosing(client.follow_events(after=0)) as events,
    ):
        found = [(await anext(events)).eventid for _ in ids]
        await superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        ids += [await entered(superuser) for _ in range(2)]
        found += [(await anext(events)).eventid for _ in range(2)]
    assert sorted(found) == sorted(ids)


class GatedLog(PostgresEventLog):
    """Hands out what it has read once the gate is open."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.has_read, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def read(self, after: int, limit: int, tenant_id: str | None = None) -> LogPage:
        page = await super().read(after, limit, tenant_id)
        self.has_read.set()
        await self.gate.wait()
        return page


async def test_a_reader_that_leaves_during_a_look_leaves_no_gap_to_others(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "MOST_KEPT", 1)
    log = GatedLog(database)
    feed = event_feed.EventFeed(log, SystemClock(), StreamSeats(100))
    with feed.following("a", "default", 0):
        await feed.look()
        await entered(connection)
        log.gate.clear()
        log.has_read.clear()
        look = asyncio.create_task(feed.look())
        await log.has_read.wait()
    with feed.following("b", "default", 1):
        log.gate.set()
        await look
        for _ in range(2):
            await entered(connection)
        await feed.look()
        await entered(connection)
        await feed.look()
        events, _ = await feed.after(1, "default")
        assert [event.number for event in events] == [2, 3, 4]


async def test_a_reader_is_told_of_what_happened_before_the_first_look(
    database: Database, connection: Connection
) -> None:
    feed = event_feed.EventFeed(PostgresEventLog(database), SystemClock(), StreamSeats(100))
    with feed.following("a", "default", await feed.begin(None, "default")) as follower:
        assert await follower.take() == []
        await entered(connection)
        await feed.look()
        assert follower.told.is_set()
        assert len(await follower.take()) == 1
