"""That a breaker is open is over when no node has it open any more."""

import asyncio
from uuid import UUID

from tests.integration.support import Connection, database_now, joined
from tests.integration.test_event_watch import kinds_of, told, watch
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id
from gnomon.observe.events import BreakerClosed, BreakerOpened
from gnomon.store.ports.tenancy.breakers import BreakerEvent, NotedBreaker
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.breakers import PostgresBreakers
from gnomon.store.postgres.events.event_writer import PostgresEventWriter

TENANT = "acme"


class Node:
    """One that opens and closes its breaker of a host."""

    def __init__(self, database: Database, incarnation: UUID, host: str | None) -> None:
        self.incarnation = incarnation
        self._store = PostgresBreakers(database, incarnation, str(incarnation)[:8])
        self._host = host

    async def opens(self) -> None:
        now = SystemClock().now()
        breaker = NotedBreaker(
            circuit=(TENANT, self._host), until=now, opened_at=now, calls=20, failures=20, error="x"
        )
        opened = BreakerOpened(tenant_id=TENANT, host=self._host, failures=20, calls=20, until=now)
        await self._store.note([breaker], [], [BreakerEvent(new_id(now), now, opened)])

    async def closes(self) -> None:
        now = SystemClock().now()
        closed = BreakerClosed(tenant_id=TENANT, host=self._host, seconds=1.0)
        event = BreakerEvent(new_id(now), now, closed)
        await self._store.note([], [(TENANT, self._host)], [event])


async def node(database: Database, name: str, host: str | None = "shop:443") -> Node:
    return Node(database, await joined(database, name), host)


async def ends(database: Database) -> int:
    return kinds_of(await told(database)).count("breaker.opened.resolved")


async def test_it_is_over_when_the_last_node_has_closed_it(database: Database) -> None:
    look = watch(database)
    first, second = await node(database, "first"), await node(database, "second")
    other = await node(database, "other", host=None)  # of all that the tenant runs
    for each in (first, second, other):
        await each.opens()
    await first.closes()
    await look.run_once()
    assert await ends(database) == 0
    await second.closes()
    await look.run_once()
    await look.run_once()
    assert await ends(database) == 1
    events = await told(database)
    (over,) = [event for event in events if event.kind == "breaker.opened.resolved"]
    assert over.is_end
    assert over.fields["host"] == "shop:443"
    opened = [event for event in events if event.kind == "breaker.opened"]
    assert [event.fingerprint for event in opened].count(over.fingerprint) == 2
    assert not any(event.is_end for event in events if event.kind == "breaker.closed")
    await other.closes()
    await look.run_once()
    assert await ends(database) == 2


async def test_it_is_over_when_the_node_that_has_it_open_is_dead(
    database: Database, connection: Connection
) -> None:
    look, lost = watch(database), await node(database, "lost")
    await lost.opens()
    await look.run_once()
    assert await ends(database) == 0
    await connection.execute(
        "UPDATE gnomon.node SET dead = true WHERE incarnation = $1", lost.incarnation
    )
    await look.run_once()
    assert await ends(database) == 1


async def test_one_that_opens_while_it_is_looked_at_keeps_it(
    database: Database, connection: Connection
) -> None:
    first, second = await node(database, "first"), await node(database, "second")
    await first.opens()
    await first.closes()
    now = await database_now(connection)
    async with asyncio.TaskGroup() as tasks, connection.transaction():
        await connection.execute(
            "INSERT INTO gnomon.breaker (tenant_id, host, node, until)"
            " VALUES ($1, 'shop:443', $2, $3)",
            TENANT, second.incarnation, now,
        )  # fmt: skip
        await connection.execute("UPDATE gnomon.condition SET event_id = gen_random_uuid()")
        ending = tasks.create_task(PostgresEventWriter(database).end_breakers())

        async def waits() -> bool:
            return bool(
                await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
            )

        await eventually(waits)
    assert ending.result() == 0
    await second.closes()
    assert await PostgresEventWriter(database).end_breakers() == 1
