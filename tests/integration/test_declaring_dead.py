"""Death is one compare-and-set on the node's row: a beat that moved after it was looked at wins."""

from uuid import UUID

from tests.integration.support import Connection, joined

from gnomon.clock import SystemClock
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.roster import Roster
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import LeaseConnection, PostgresRoster
from gnomon.testing import turned_clock

TTL = 10.0


async def is_dead(connection: Connection, node: UUID) -> bool:
    dead: bool = await connection.fetchval(
        "SELECT dead FROM gnomon.node WHERE incarnation = $1", node
    )
    return dead


async def renew(dsn: str, node: UUID) -> None:
    renewal = LeaseConnection(dsn)
    try:
        await renewal.renew(node, TTL)
    finally:
        await renewal.close()


async def test_a_beat_that_moved_meanwhile_saves_its_node(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    roster = PostgresRoster(database)
    node = await joined(database)
    (seen,) = await roster.roster()
    await renew(database_dsn, node)
    assert not await roster.declare_dead(node, seen.beat)
    assert not await is_dead(connection, node)
    (now,) = await roster.roster()
    assert now.beat > seen.beat
    assert await roster.declare_dead(node, now.beat)
    assert await is_dead(connection, node)
    assert not await roster.declare_dead(node, now.beat), "it dies once"


async def test_a_node_goes_by_beats_and_not_by_the_clock(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    """Hours pass by the database's clock: no lease holds by it, but one of the nodes beats on."""
    await turned_clock.install(connection)
    time = 0.0
    clock = SystemClock(lambda: time)
    me, beating, silent = [await joined(database, name) for name in ("me", "beating", "silent")]
    lease = Lease(me, TTL)
    roster = Roster(PostgresRoster(database), lease, clock)
    for _ in range(12):
        time += 1.0
        await turned_clock.turn(connection, 3600.0)
        async with database.connection() as asking:
            clock.observe(await asking.fetchval("SELECT gnomon.now()"), time)
        lease.renewed(time)
        await renew(database_dsn, beating)
        await turned_clock.turn(connection, 3600.0)
        await roster.run_once()
        assert not await is_dead(connection, beating)
        assert await is_dead(connection, silent) == (time > TTL)
