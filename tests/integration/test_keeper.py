"""The thread that keeps a lease, against a real PostgreSQL."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.integration.support import Connection, joined
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.lease_keeper import LeaseKeeper
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import LeaseConnection

TTL = 1.0


class Kept:
    """A lease, its keeper, and whether it was lost."""

    def __init__(self, lease: Lease, dsn: str, clock: SystemClock) -> None:
        self.lease = lease
        self.lost = asyncio.Event()
        self.keeper = LeaseKeeper(lease, LeaseConnection(dsn), clock, self.lost.set)


@asynccontextmanager
async def kept(database: Database, clock: SystemClock) -> AsyncIterator[Kept]:
    """A lease that is being kept, by an event loop that is alive."""
    kept = Kept(Lease(await joined(database), TTL), database.dsn, clock)
    kept.lease.renewed(clock.monotonic())

    async def progress() -> None:
        while True:
            await kept.keeper.progress()
            await asyncio.sleep(kept.keeper.interval)

    alive = asyncio.create_task(progress())
    kept.keeper.start()
    try:
        yield kept
    finally:
        alive.cancel()
        await kept.keeper.stop()


def keepers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "gnomon-lease"]


async def beat(connection: Connection) -> int:
    found: int = await connection.fetchval("SELECT max(beat) FROM gnomon.node")
    return found


async def test_a_lease_is_renewed_for_as_long_as_the_loop_lives(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    async with kept(database, clock) as keeping:

        async def renewed_often() -> bool:
            return await beat(connection) >= 8  # more than a lease's worth

        await eventually(renewed_often)
        assert keeping.lease.may_judge(clock.monotonic())
    assert keepers() == []


async def test_a_keeper_that_is_stopped_at_once_ends_at_once(
    database: Database, clock: SystemClock
) -> None:
    for _ in range(20):
        keeping = Kept(Lease(await joined(database), 5.0), database.dsn, clock)
        keeping.keeper.start()
        await keeping.keeper.stop()
        assert keepers() == []


async def test_a_loop_that_stands_still_is_not_kept_alive(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    async with kept(database, clock) as keeping:
        deadline = time.monotonic() + 10
        while keeping.lease.is_trusted(clock.monotonic()):
            assert time.monotonic() < deadline
            time.sleep(0.05)  # the loop hangs
        assert keeping.lease.since is None

        async def trusted() -> bool:
            return keeping.lease.is_trusted(clock.monotonic())

        await eventually(trusted)  # it was not declared dead, so it goes on


async def test_a_connection_that_breaks_breaks_the_run_and_not_the_lease(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    async with kept(database, clock) as keeping:
        began = keeping.lease.since

        async def broken() -> bool:
            await connection.execute(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                  AND backend_type = 'client backend'
                """
            )
            return keeping.lease.since is None

        await eventually(broken)

        async def renewed() -> bool:
            return keeping.lease.since is not None

        await eventually(renewed)
        assert keeping.lease.since != began
        assert not keeping.lease.lost
        assert not keeping.lost.is_set()


async def test_a_node_that_was_declared_dead_hears_of_it(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    async with kept(database, clock) as keeping:
        await connection.execute("UPDATE gnomon.node SET dead = true")
        await asyncio.wait_for(keeping.lost.wait(), 30)
        assert keeping.lease.lost
        assert not keeping.lease.is_trusted(clock.monotonic())
