"""Partitions past retention: what is needed stays in sight, the rest goes, and nobody waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest
from tests.conftest import connected
from tests.integration.support import (
    Connection,
    archived,
    executions,
    joined,
    live,
    settlement,
    store,
    submission,
)
from tests.integration.test_partitions import (
    BIG,
    DAY,
    NOON,
    TODAY,
    days_of,
    drop,
    failed_once,
    finished,
    fresh,
    names,
    pool,
)
from tests.waiting import eventually

from gnomon.clock import new_id
from gnomon.model.ids import lowest_id
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.store.postgres.database import Database, connect
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.retention import partitions
from gnomon.store.postgres.tasks import reading

__all__ = ["fresh", "pool"]

SECOND = timedelta(seconds=1)
LONG_AFTER = NOON + 3 * DAY
BY_ID = ("task_archive", "task_payload", "execution")


def of_tasks(*days: date) -> set[str]:
    return {partitions.partition_name(parent, day) for parent in BY_ID for day in days}


@pytest.fixture
async def looker(unpartitioned_dsn: str, fresh: Connection) -> AsyncIterator[Connection]:
    """Straight to the server."""
    opened = await connected(unpartitioned_dsn)
    yield opened
    await opened.close()


@asynccontextmanager
async def old_reader(dsn: str) -> AsyncIterator[Connection]:
    """Has read all of it, and goes on reading in the same snapshot."""
    opened = await connected(dsn)
    try:
        async with opened.transaction(isolation="repeatable_read"):
            await seen(opened)
            yield opened
    finally:
        await opened.close()


async def seen(connection: Connection) -> list[int]:
    return [
        await connection.fetchval(f"SELECT count(*) FROM gnomon.{parent}")
        for parent in partitions.PARENTS
    ]


async def pending(connection: Connection) -> set[str]:
    return {
        p.name
        for parent in partitions.PARENTS
        for p in await partitions.listed(connection, parent)
        if p.pending
    }


async def all_marked(connection: Connection) -> list[str]:
    parents = partitions.PARENTS
    return [name for parent in parents for name in await partitions.marked(connection, parent)]


async def detaching(connection: Connection) -> list[int]:
    """The sessions that wait in the middle of a detach."""
    rows = await connection.fetch(
        """
        SELECT pid FROM pg_stat_activity
        WHERE query LIKE '%CONCURRENTLY' AND wait_event_type = 'Lock' AND state = 'active'
          AND datname = current_database()
        """
    )
    return [row["pid"] for row in rows]


async def test_a_day_goes_when_all_its_tasks_are_past_retention(
    pool: Database, fresh: Connection
) -> None:
    await partitions.make(fresh, TODAY)
    key = await finished(pool, NOON, NOON + DAY, BIG)
    yesterday = days_of(TODAY - DAY)
    dropped = set(await drop(fresh, NOON + DAY))  # what its task needs is still needed
    assert dropped == yesterday | {partitions.partition_name("occurrence", TODAY)}
    assert await archived(fresh, key) is not None
    assert set(await drop(fresh, NOON + DAY + SECOND)) == of_tasks(TODAY)
    assert not await names(fresh) & (yesterday | days_of(TODAY))
    assert await seen(fresh) == [0, 0, 0, 0]


async def test_live_tasks_keep_their_payload_and_tries(pool: Database, fresh: Connection) -> None:
    await partitions.make(fresh, TODAY)
    key = await failed_once(pool, NOON, BIG)
    await finished(pool, NOON, NOON, BIG)
    assert not set(await drop(fresh, NOON + DAY)) & of_tasks(TODAY)
    assert await seen(fresh) == [1, 2, 2, 0]
    await drop(fresh, LONG_AFTER)  # the day has been past for a day: what is not needed goes
    assert await seen(fresh) == [0, 1, 1, 0]
    assert await live(fresh, key) is not None
    assert await PostgresDispatch(pool, 10.0).payload(key) == BIG
    assert [row["error"] for row in await executions(fresh, key)] == ["no"]


async def test_a_straggler_has_its_place_and_goes_with_its_own_end(
    pool: Database, fresh: Connection
) -> None:
    await partitions.make(fresh, TODAY)
    dispatch, node = PostgresDispatch(pool, 10.0), await joined(pool)
    key = await failed_once(pool, NOON, BIG)
    await drop(fresh, LONG_AFTER)
    (delivery,) = (await dispatch.claim(node, [key])).deliveries
    ended = NOON + 5 * DAY
    await dispatch.settle([settlement(delivery, finished_at=ended.timestamp())])
    await drop(fresh, ended)
    assert await archived(fresh, key) is not None
    assert await dispatch.payload(key) == BIG
    await drop(fresh, ended + SECOND)
    assert await archived(fresh, key) is None
    assert await dispatch.payload(key) is None
    assert await executions(fresh, key) == []


async def test_between_days_that_are_needed_few_partitions_are_left(
    pool: Database, fresh: Connection
) -> None:
    await partitions.make(fresh, TODAY)
    await partitions.make(fresh, TODAY + 9 * DAY)
    keys = [await failed_once(pool, NOON + n * DAY) for n in (2, 8)]
    await drop(fresh, NOON + 12 * DAY)
    before = [p.name for p in await partitions.listed(fresh, "execution")]
    await drop(fresh, NOON + 12 * DAY)
    left = [
        p.name for p in await partitions.listed(fresh, "execution") if p.end <= date(2026, 6, 1)
    ]
    assert left == [
        "execution_old",
        "execution_20260522",
        "execution_gap_20260523",
        "execution_20260528",
        "execution_gap_20260529",
    ]
    assert before == [p.name for p in await partitions.listed(fresh, "execution")]
    for made_at in (datetime(1970, 1, 1, tzinfo=UTC), NOON - 40 * DAY, NOON + 5 * DAY):
        assert (
            await archived(fresh, await finished(pool, made_at, NOON + 20 * DAY, BIG)) is not None
        )
    await fresh.execute("DELETE FROM gnomon.task WHERE id = ANY ($1)", [key.id for key in keys])
    await fresh.execute("DELETE FROM gnomon.task_archive")
    await drop(fresh, NOON + 12 * DAY)  # clears what the deletion left
    await drop(fresh, NOON + 12 * DAY)
    left = [
        p.name for p in await partitions.listed(fresh, "execution") if p.end <= date(2026, 6, 1)
    ]
    assert left == ["execution_old"]


async def test_a_fire_of_long_ago_has_a_place_as_long_as_its_task(
    pool: Database, fresh: Connection
) -> None:
    await partitions.make(fresh, TODAY)
    key = await finished(pool, NOON + 4 * DAY, NOON + 4 * DAY)
    for fire_at, task in ((NOON, key.id), (NOON - 90 * DAY, key.id), (NOON, None)):
        await fresh.execute(
            """
            INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id)
            VALUES (gen_random_uuid(), $1, 'default', $2)
            """,
            fire_at,
            task,
        )
    await drop(fresh, NOON + 3 * DAY)
    assert await fresh.fetchval("SELECT count(*) FROM gnomon.occurrence") == 2
    await drop(fresh, NOON + 5 * DAY)
    assert await fresh.fetchval("SELECT count(*) FROM gnomon.occurrence") == 0


class Traffic:
    """Readers and writers who go about their business, one after the other."""

    def __init__(self, pool: Database, kept: TaskKey) -> None:
        self._pool = pool
        self._kept = kept
        self._dispatch = PostgresDispatch(pool, 10.0)
        self.rounds = 0

    async def run(self, stop: asyncio.Event) -> None:
        node = await joined(self._pool)
        while not stop.is_set():
            task = await reading.get(self._pool, self._kept)
            assert task.payload == BIG
            tries = await reading.executions(self._pool, self._kept, None, None, 50)
            assert len(tries.executions) == 1
            older = lowest_id(NOON + DAY)
            page = await reading.page(self._pool, DEFAULT_TENANT, TaskFilter(), older, 100)
            assert self._kept.id in {task.task_id for task in page.tasks}
            made_at = NOON + 5 * DAY
            (key,) = await store(self._pool, submission(made_at, id=new_id(made_at), payload=BIG))
            (delivery,) = (await self._dispatch.claim(node, [key])).deliveries
            ended = (NOON + 6 * DAY).timestamp()
            assert await self._dispatch.settle([settlement(delivery, finished_at=ended)])
            self.rounds += 1


async def waiting_for_tables(connection: Connection) -> list[str]:
    """What others than the pruner would do if they got their lock on a table."""
    rows = await connection.fetch(
        """
        SELECT a.query FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
        WHERE NOT l.granted AND l.locktype = 'relation' AND a.datname = current_database()
          AND a.query !~ 'ALTER TABLE|DROP TABLE|COMMENT ON|CREATE TABLE'
        """
    )
    return [row["query"] for row in rows]


async def test_an_old_reader_holds_up_the_drop_and_nobody_else(
    pool: Database, fresh: Connection, looker: Connection, unpartitioned_dsn: str
) -> None:
    await partitions.make(fresh, TODAY)
    kept = await failed_once(pool, NOON - DAY, BIG)
    for _ in range(3):
        await finished(pool, NOON, NOON, BIG)
    traffic, stop = Traffic(pool, kept), asyncio.Event()
    async with old_reader(unpartitioned_dsn) as reader:
        before = await seen(reader)
        pruning = asyncio.create_task(drop(fresh, LONG_AFTER))
        moving = asyncio.create_task(traffic.run(stop))
        await eventually(lambda: detaching(looker))
        rounds = traffic.rounds
        while not pruning.done() or traffic.rounds < rounds + 3:
            assert await waiting_for_tables(looker) == []
            assert not moving.done(), moving.exception()
        assert await pruning == []  # nothing of what the old reader sees
        assert await pending(looker) == of_tasks(TODAY)
        assert await drop(fresh, LONG_AFTER) == []  # and again
        assert await waiting_for_tables(looker) == []
        assert await seen(reader) == before
        assert await pending(looker) == of_tasks(TODAY)
    await drop(fresh, LONG_AFTER)
    stop.set()
    await moving
    assert await pending(looker) == set()
    assert not await names(fresh) & of_tasks(TODAY)
    assert await names(fresh) >= of_tasks(TODAY - DAY)
    assert await archived(fresh, await finished(pool, NOON, LONG_AFTER)) is not None


async def test_what_a_killed_pruner_left_is_finished_by_another(
    pool: Database, fresh: Connection, looker: Connection, unpartitioned_dsn: str
) -> None:
    await partitions.make(fresh, TODAY)
    await finished(pool, NOON, NOON, BIG)
    victim = await connect(unpartitioned_dsn)
    async with old_reader(unpartitioned_dsn):
        pruning = asyncio.create_task(drop(victim, LONG_AFTER))
        for pid in await eventually(lambda: detaching(looker)):
            await looker.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await pruning
        assert len(await pending(looker)) == 1
    assert set(await drop(fresh, LONG_AFTER))
    assert await pending(looker) == set()
    assert await seen(fresh) == [0, 0, 0, 0]
    assert await all_marked(looker) == []
    assert not await names(looker) & of_tasks(TODAY)


async def test_a_table_that_was_detached_to_be_dropped_is_dropped_later(
    pool: Database, fresh: Connection, looker: Connection
) -> None:
    """Also the one of long ago, whose name is needed for its successor."""
    await partitions.make(fresh, TODAY)
    for name in ("execution_old", "execution_20260519"):
        await looker.execute(f"COMMENT ON TABLE gnomon.{name} IS '{partitions.MARK}'")
        await looker.execute(f"ALTER TABLE gnomon.execution DETACH PARTITION gnomon.{name}")
    await partitions.make(fresh, TODAY)
    assert list(partitions.holes(await partitions.listed(fresh, "execution"), TODAY)) == []
    await looker.execute("ALTER TABLE gnomon.execution DETACH PARTITION gnomon.execution_20260520")
    await drop(fresh, LONG_AFTER)
    assert await all_marked(looker) == []
    left = await looker.fetchval("SELECT to_regclass('gnomon.execution_20260520') IS NOT NULL")
    assert left, "somebody else has detached it"


async def test_a_node_drops_what_is_past_its_retention(pool: Database, fresh: Connection) -> None:
    today = await fresh.fetchval("SELECT (gnomon.now() AT TIME ZONE 'UTC')::date")
    await partitions.make(fresh, today - 40 * DAY)
    await partitions.make(fresh, today)
    chores = PostgresChores(pool)
    assert len(await chores.drop_partitions(30.0)) == 10 * len(partitions.PARENTS)
    assert await chores.drop_partitions(30.0) == []


def test_holes_are_what_no_partition_covers() -> None:
    day = TODAY

    def part(first: date | None, end: date) -> partitions.Partition:
        return partitions.Partition("execution", "x", first, end)

    known = [part(None, day), part(day + DAY, day + 2 * DAY), part(day + 2 * DAY, day + 3 * DAY)]
    assert list(partitions.holes(known, day + 5 * DAY)) == [
        (day, day + DAY),
        (day + 3 * DAY, day + 5 * DAY),
    ]
    assert list(partitions.holes(known, day + 3 * DAY)) == [(day, day + DAY)]
    assert list(partitions.holes([], day)) == [(None, day)]
