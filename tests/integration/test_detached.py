"""What is written into a partition that is going is kept; only what was detached is dropped."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date, datetime
from uuid import UUID

import pytest
from tests.conftest import connected
from tests.integration.support import Connection, archived, executions, live
from tests.integration.test_old_partitions import LONG_AFTER, all_marked, looker
from tests.integration.test_partitions import (
    BIG,
    DAY,
    NOON,
    TODAY,
    drop,
    failed_once,
    finished,
    fresh,
    names,
    pool,
)
from tests.waiting import eventually

from gnomon.clock import new_id
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.retention import partitions

__all__ = ["fresh", "looker", "pool"]

LEDGER_DAY = "occurrence_20260520"
LONG_BEFORE = "occurrence_gap_19700101"
LONG_AGO = NOON - 90 * DAY


@pytest.fixture
async def another(unpartitioned_dsn: str, fresh: Connection) -> AsyncIterator[Connection]:
    opened = await connected(unpartitioned_dsn)
    yield opened
    await opened.close()


async def enter(connection: Connection, fire_at: datetime, task_id: UUID | None = None) -> None:
    """A fire of long ago, made up for now."""
    await connection.execute(
        """
        INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id)
        VALUES (gen_random_uuid(), $1, 'default', $2)
        """,
        fire_at,
        task_id or new_id(LONG_AFTER + DAY),
    )


async def entered(connection: Connection) -> list[datetime]:
    rows = await connection.fetch("SELECT fire_at FROM gnomon.occurrence ORDER BY fire_at")
    return [row["fire_at"] for row in rows]


async def waits(connection: Connection, pid: int) -> bool:
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", pid
    )
    return found


async def detached(connection: Connection, *names: str) -> None:
    """As a pruner leaves them that is killed then."""
    for name in names:
        parent = next(p for p in partitions.PARENTS if name.startswith(f"{p}_"))
        await connection.execute(f"COMMENT ON TABLE gnomon.{name} IS '{partitions.MARK}'")
        await connection.execute(f"ALTER TABLE gnomon.{parent} DETACH PARTITION gnomon.{name}")


async def test_what_is_written_between_the_look_and_the_detach_is_kept(
    fresh: Connection, pool: Database, looker: Connection
) -> None:
    await partitions.make(fresh, TODAY)
    await enter(looker, NOON, new_id(NOON))  # needed by nobody
    async with pool.transaction() as holder:
        # The detach waits for this, and reading and writing do not.
        await holder.execute(f"LOCK TABLE gnomon.{LEDGER_DAY} IN SHARE UPDATE EXCLUSIVE MODE")
        pruning = asyncio.create_task(drop(fresh, LONG_AFTER))
        await eventually(lambda: waits(looker, fresh.get_server_pid()))
        for fire_at in (LONG_AGO, NOON):
            await enter(looker, fire_at)
    assert LEDGER_DAY in await pruning
    assert await entered(looker) == [LONG_AGO, NOON]
    assert LEDGER_DAY not in await names(looker)
    assert await all_marked(looker) == []
    await drop(fresh, LONG_AFTER)
    assert await entered(looker) == [LONG_AGO, NOON]


async def test_what_a_killed_pruner_left_in_a_detached_table_is_kept(
    fresh: Connection, looker: Connection
) -> None:
    await partitions.make(fresh, TODAY)
    await enter(looker, NOON, new_id(NOON))  # needed by nobody
    for fire_at in (LONG_AGO, NOON):
        await enter(looker, fire_at)
    await detached(looker, LONG_BEFORE, LEDGER_DAY)
    await drop(fresh, LONG_AFTER)
    assert await entered(looker) == [LONG_AGO, NOON]
    assert await all_marked(looker) == []


async def test_all_of_a_task_is_kept(fresh: Connection, pool: Database, looker: Connection) -> None:
    """Of one that ended within retention, and of one that is live."""
    await partitions.make(fresh, TODAY)
    ended = await finished(pool, NOON, LONG_AFTER, BIG)
    await finished(pool, NOON, NOON, BIG)
    waiting = await failed_once(pool, NOON - 90 * DAY, BIG)
    for parent in ("task_archive", "task_payload", "execution"):
        await detached(looker, f"{parent}_20260520", f"{parent}_gap_19700101")
    await drop(fresh, LONG_AFTER)
    assert await archived(looker, ended) is not None
    assert await live(looker, waiting) is not None
    for key in (ended, waiting):
        assert await PostgresDispatch(pool, 10.0).payload(key) == BIG
        assert [row["error"] for row in await executions(looker, key)] == ["no"]
    assert await looker.fetchval("SELECT count(*) FROM gnomon.execution") == 2
    assert await all_marked(looker) == []


async def test_a_name_that_is_needed_again_costs_no_row(
    fresh: Connection, pool: Database, looker: Connection
) -> None:
    """Another node covers what lies before the days, before the pruner has looked again."""
    await partitions.make(fresh, TODAY)
    waiting = await failed_once(pool, LONG_AGO, BIG)
    await detached(looker, "task_payload_gap_19700101", "execution_gap_19700101")
    await partitions.make(fresh, TODAY)
    assert "execution_gap_19700101" in await names(looker)
    await drop(fresh, LONG_AFTER)
    assert await PostgresDispatch(pool, 10.0).payload(waiting) == BIG
    assert len(await executions(looker, waiting)) == 1
    assert await all_marked(looker) == []


async def test_the_ledger_is_covered_with_its_entries_in_it(
    fresh: Connection, looker: Connection
) -> None:
    """Or else a fire could be entered a second time in between."""
    await partitions.make(fresh, TODAY)
    await enter(looker, LONG_AGO)
    await detached(looker, LONG_BEFORE)
    await partitions.make(fresh, TODAY)
    assert LONG_BEFORE not in await names(looker)
    await drop(fresh, LONG_AFTER)
    assert list(partitions.holes(await partitions.listed(looker, "occurrence"), TODAY)) == []
    assert await entered(looker) == [LONG_AGO]


async def test_a_new_partition_of_the_same_name_stays(
    fresh: Connection, looker: Connection, another: Connection
) -> None:
    await partitions.make(fresh, TODAY)
    await detached(looker, LONG_BEFORE)
    async with another.transaction():
        await another.execute("DROP TABLE gnomon.occurrence_gap_19700101")
        new = partitions.Partition("occurrence", LONG_BEFORE, date(1970, 1, 1), TODAY - DAY)
        assert await partitions.attach(another, new)
        pruning = asyncio.create_task(drop(fresh, NOON - 10 * DAY))
        await eventually(lambda: waits(looker, fresh.get_server_pid()))
        await enter(another, LONG_AGO)
        made = await another.fetchval("SELECT 'gnomon.occurrence_gap_19700101'::regclass::oid")
    await pruning
    assert await looker.fetchval("SELECT 'gnomon.occurrence_gap_19700101'::regclass::oid") == made
    assert await entered(looker) == [LONG_AGO]
