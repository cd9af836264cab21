"""The daily partitions: made ahead, dropped by retention, and nothing lost on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, date, datetime, timedelta

import pytest
from tests.conftest import connected
from tests.integration.support import (
    Connection,
    archived,
    blocked_by,
    joined,
    settlement,
    store,
    submission,
)
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id
from gnomon.model.errors import StoreUnavailable
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.retention import old_partitions, partitions

TODAY = date(2026, 5, 20)
NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BIG = b'"' + b"x" * 5000 + b'"'
RETRY = Verdict(VerdictKind.RETRY)


@pytest.fixture
async def fresh(unpartitioned_dsn: str) -> AsyncIterator[Connection]:
    """A schema without any daily partition."""
    connection = await connected(unpartitioned_dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def pool(unpartitioned_dsn: str, fresh: Connection) -> AsyncIterator[Database]:
    database = Database(unpartitioned_dsn, 4)
    await database.open()
    yield database
    await database.close()


async def finished(
    pool: Database, made_at: datetime, finished_at: datetime, payload: bytes | None = None
) -> TaskKey:
    """A task made at one time that ended at another, after a failed try."""
    dispatch, node = PostgresDispatch(pool, 10.0), await joined(pool)
    key = await failed_once(pool, made_at, payload)
    (delivery,) = (await dispatch.claim(node, [key])).deliveries
    await dispatch.settle([settlement(delivery, finished_at=finished_at.timestamp())])
    return key


async def failed_once(pool: Database, made_at: datetime, payload: bytes | None = None) -> TaskKey:
    """A live task with a try behind it."""
    dispatch, node = PostgresDispatch(pool, 10.0), await joined(pool)
    (key,) = await store(pool, submission(made_at, id=new_id(made_at), payload=payload))
    (delivery,) = (await dispatch.claim(node, [key])).deliveries
    await dispatch.settle([settlement(delivery, RETRY, OutcomeKind.FAILED, error="no")])
    return key


async def drop(connection: Connection, cutoff: datetime) -> list[str]:
    return await old_partitions.drop(connection, cutoff, SystemClock())


async def names(connection: Connection) -> set[str]:
    return {
        partition.name
        for parent in partitions.PARENTS
        for partition in await partitions.listed(connection, parent)
    }


def days_of(*days: date) -> set[str]:
    return {partitions.partition_name(p, day) for p in partitions.PARENTS for day in days}


async def test_partitions_are_made_a_week_ahead_and_only_once(fresh: Connection) -> None:
    assert await partitions.days_ahead(fresh, TODAY) == 0
    made = await partitions.make(fresh, TODAY)
    assert set(made) == days_of(*(TODAY + n * DAY for n in range(-1, partitions.DAYS_AHEAD + 1)))
    assert await partitions.days_ahead(fresh, TODAY) == partitions.DAYS_AHEAD + 1
    assert await partitions.make(fresh, TODAY) == []
    assert set(await partitions.make(fresh, TODAY + DAY)) == days_of(
        TODAY + (partitions.DAYS_AHEAD + 1) * DAY
    )


async def test_a_hole_in_the_days_ahead_shows(fresh: Connection) -> None:
    await partitions.make(fresh, TODAY)
    await fresh.execute(f"DROP TABLE gnomon.execution_{TODAY + 3 * DAY:%Y%m%d}")
    assert await partitions.days_ahead(fresh, TODAY) == 3
    assert len(await partitions.make(fresh, TODAY)) == 1
    assert await partitions.days_ahead(fresh, TODAY) == partitions.DAYS_AHEAD + 1


async def test_processes_that_start_together_make_them_once(
    fresh: Connection, unpartitioned_dsn: str
) -> None:
    async with AsyncExitStack() as stack:
        connections = [await connected(unpartitioned_dsn) for _ in range(4)]
        for connection in connections:
            stack.push_async_callback(connection.close)
        made = await asyncio.gather(*(partitions.make(c, TODAY) for c in connections))
    assert sorted(name for names in made for name in names) == sorted(
        days_of(*(TODAY + n * DAY for n in range(-1, partitions.DAYS_AHEAD + 1)))
    )


async def test_every_id_up_to_a_week_ahead_has_a_place(pool: Database, fresh: Connection) -> None:
    await partitions.make(fresh, TODAY)
    for made_at in (datetime(1970, 1, 1, tzinfo=UTC), NOON - 40 * DAY, NOON, NOON + 7 * DAY):
        assert await archived(fresh, await finished(pool, made_at, NOON, BIG)) is not None


async def test_a_day_that_has_not_ended_before_the_cutoff_stays(fresh: Connection) -> None:
    await partitions.make(fresh, TODAY)
    assert set(await drop(fresh, NOON)) == days_of(TODAY - DAY)
    assert await drop(fresh, NOON) == []


async def test_a_gap_that_an_idle_time_left_is_filled(pool: Database, fresh: Connection) -> None:
    await partitions.make(fresh, TODAY)
    await partitions.make(fresh, TODAY + 20 * DAY)
    key = await finished(pool, NOON + 15 * DAY, NOON + 20 * DAY, BIG)
    assert await archived(fresh, key) is not None


async def test_partitions_can_be_made_after_young_ones_were_dropped(fresh: Connection) -> None:
    """With a short retention, yesterday is dropped while it is still yesterday."""
    await partitions.make(fresh, TODAY)
    await drop(fresh, NOON)
    assert await partitions.make(fresh, TODAY) == []


async def test_a_connection_lost_in_the_middle_means_not_now(
    pool: Database, fresh: Connection
) -> None:
    chores = PostgresChores(pool)
    async with fresh.transaction():
        await fresh.execute("LOCK TABLE gnomon.task_archive")
        making = asyncio.create_task(chores.make_partitions())
        for pid in await eventually(lambda: blocked_by(fresh)):
            await fresh.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailable):
            await making


async def test_one_node_at_a_time_holds_a_chore(database: Database, connection: Connection) -> None:
    chores = PostgresChores(database)
    first, second = await joined(database), await joined(database)
    assert await chores.hold("prune", first, 60.0)
    assert not await chores.hold("prune", second, 60.0)
    assert await chores.hold("prune", first, 60.0)
    await connection.execute("UPDATE gnomon.chore SET held_until = clock_timestamp()")
    assert await chores.hold("prune", second, 60.0)
    assert not await chores.hold("prune", first, 60.0)


async def test_long_dead_nodes_are_forgotten_unless_something_runs_in_their_name(
    database: Database, connection: Connection
) -> None:
    chores = PostgresChores(database)
    _gone, needed, recent, alive = [await joined(database) for _ in range(4)]
    now = await connection.fetchval("SELECT gnomon.now()")
    (key,) = await store(database, submission(now))
    await PostgresDispatch(database, 10.0).claim(needed, [key])
    await connection.execute(
        """
        UPDATE gnomon.node SET dead = true, ended_at = gnomon.now()
            - CASE WHEN incarnation = $2 THEN interval '1 hour' ELSE interval '2 days' END
        WHERE incarnation <> $1
        """,
        alive,
        recent,
    )
    await chores.remove(RowKind.NODES, 100, 7.0)
    rows = await connection.fetch("SELECT incarnation FROM gnomon.node")
    assert {row["incarnation"] for row in rows} == {needed, recent, alive}
