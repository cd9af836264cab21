"""Events are read in an order that misses none, whoever commits late, dies or grows."""

import asyncio
import itertools
from datetime import timedelta
from uuid import UUID

import pytest
from tests.conftest import connected
from tests.integration.support import Connection, database_now

from gnomon.clock import new_id, new_id_in
from gnomon.model.errors import EventsGone
from gnomon.model.fleet.retention import RowKind
from gnomon.model.insight.event_kinds import DEAD_LETTERED, INSTALLATION, NODE_LOST, fingerprint
from gnomon.store.ports.insight.events import NewEvent
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_writer import PostgresEventWriter

_ENTER = "INSERT INTO gnomon.event (tenant_id, id, kind, at, detail) VALUES ($1, $2, $3, now(), $4)"


# The turns of the ids below. Those of one millisecond are told in the order of their turns, too.
_TURNS = itertools.count()


async def entered(
    connection: Connection, tenant_id: str = "default", kind: str = "kind", age: float = 0.0
) -> UUID:
    event_id = new_id_in(0, await database_now(connection) - timedelta(seconds=age), next(_TURNS))
    await connection.execute(_ENTER, tenant_id, event_id, kind, "{}")
    return event_id


async def test_an_event_committed_late_comes_after_those_that_were_seen(
    database: Database, connection: Connection, database_dsn: str
) -> None:
    """Two writers commit in the reverse order of their ids."""
    log, late = PostgresEventLog(database), await connected(database_dsn)
    try:
        transaction = late.transaction()
        await transaction.start()
        first = await entered(late)
        second = await entered(connection)
        page = await log.read(0, 100)
        assert [event.id for event in page.events] == [second], "nobody waits for the late one"
        await transaction.commit()
        rest = await log.read(page.reached, 100)
        assert [event.id for event in rest.events] == [first]
        assert not (await log.read(rest.reached, 100)).events
    finally:
        await late.close()


async def test_who_dies_while_giving_numbers_gives_none(
    database: Database, connection: Connection, database_dsn: str
) -> None:
    log, dying = PostgresEventLog(database), await connected(database_dsn)
    told = [await entered(connection) for _ in range(3)]
    await dying.execute("BEGIN")
    assert await dying.fetchval("SELECT gnomon.number_events(2)") == 2
    dying.terminate()
    page = await log.read(0, 100)
    assert [event.id for event in page.events] == told
    assert [event.number for event in page.events] == [1, 2, 3]


async def test_many_readers_and_writers_at_once_miss_nothing_and_double_nothing(
    database: Database, connection: Connection, database_dsn: str
) -> None:
    log, writers = PostgresEventLog(database), [await connected(database_dsn) for _ in range(3)]

    async def write(writer: Connection) -> list[UUID]:
        ids = []
        for _ in range(40):
            async with writer.transaction():
                ids.append(await entered(writer))
                await asyncio.sleep(0)
        return ids

    async def follow(total: int) -> list[UUID]:
        found: list[UUID] = []
        after = 0
        while len(found) < total:
            page = await log.read(after, 7)
            found += [event.id for event in page.events]
            assert page.reached >= after
            after = page.reached
        return found

    readers = asyncio.gather(*(follow(120) for _ in range(3)))
    written = {each for ids in await asyncio.gather(*map(write, writers)) for each in ids}
    async with asyncio.timeout(60):
        orders = await readers
    for writer in writers:
        await writer.close()
    assert orders[0] == orders[1] == orders[2]
    assert len(orders[0]) == 120
    assert set(orders[0]) == written


async def test_an_event_that_somebody_holds_keeps_no_other_waiting(
    database: Database, connection: Connection, database_dsn: str
) -> None:
    held, other = await entered(connection), await entered(connection)
    async with asyncio.timeout(20):
        locker = await connected(database_dsn)
        async with locker.transaction():
            await locker.execute("SELECT FROM gnomon.event WHERE id = $1 FOR UPDATE", held)
            page = await PostgresEventLog(database).read(0, 100)
            assert [event.id for event in page.events] == [other]
        rest = await PostgresEventLog(database).read(page.reached, 100)
        assert [event.id for event in rest.events] == [held]
        await locker.close()


async def test_an_event_that_has_grown_is_told_again(
    database: Database, connection: Connection
) -> None:
    log, writer = PostgresEventLog(database), PostgresEventWriter(database)
    event_id = new_id(await database_now(connection))

    def event(count: int) -> NewEvent:
        detail = f'{{"task_type": "mail", "count": {count}}}'
        return NewEvent(tenant_id="default", id=event_id, kind=DEAD_LETTERED, detail=detail)

    await writer.enter([event(1)])
    first = await log.read(0, 10)
    await writer.enter([event(1)])
    assert not (await log.read(first.reached, 10)).events, "nothing has changed"
    await writer.enter([event(14)])
    (again,) = (await log.read(first.reached, 10)).events
    assert again.id == event_id
    assert again.fields["count"] == 14
    assert again.task_type == "mail"
    assert again.fingerprint == fingerprint(DEAD_LETTERED, "default", {"task_type": "mail"})


async def test_a_tenant_reads_its_own_events_alone(
    database: Database, connection: Connection
) -> None:
    log = PostgresEventLog(database)
    mine = await entered(connection, "acme")
    await entered(connection, "other")
    await entered(connection, INSTALLATION, NODE_LOST)
    page = await log.read(0, 10, "acme")
    assert [event.id for event in page.events] == [mine]
    assert page.reached == 3, "and does not look at the others again"
    assert len((await log.read(0, 10)).events) == 3


async def test_who_was_away_for_longer_than_events_are_kept_is_told_so(
    database: Database, connection: Connection
) -> None:
    log, chores = PostgresEventLog(database), PostgresChores(database)
    await entered(connection, age=8 * 86_400)
    kept = await entered(connection)
    await chores.remove(RowKind.EVENTS, 100, 7.0)
    with pytest.raises(EventsGone) as caught:
        await log.read(0, 10)
    assert (caught.value.forgotten, caught.value.last) == (1, 2)
    assert [event.id for event in (await log.read(1, 10)).events] == [kept]
    with pytest.raises(EventsGone):
        await log.read(3, 10)
