"""Rows past their time are found by their index: on a table that was never analyzed, on one full of
dead rows, and on one that was analyzed while it was empty."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import pytest
from tests.integration.support import Connection, database_now
from tests.integration.test_retention import BUCKETS, EVENTS, KEYS
from tests.plans.test_hot_plans import Used, plans

from gnomon.model.ids import lowest_id
from gnomon.store.ports.tenancy.usage import KEPT_DAYS
from gnomon.store.postgres.retention.expired_rows import BY_INDEX
from gnomon.store.postgres.retention.needed import BY_PAGE, asking, clearing
from gnomon.store.postgres.retention.partitions import DAY, PARENTS, Partition, partition_name

USAGE = """
INSERT INTO gnomon.usage (tenant_id, day, session)
SELECT 't' || n % 100, DATE '2020-01-01' + n / 100, 0 FROM generate_series(1, 10000) AS n
"""
NODES = """
INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until, dead, ended_at)
SELECT gen_random_uuid(), 'n', '1', 1, now(), now(), true, now() - interval '2 days'
FROM generate_series(1, 500)
"""
FINISHED = """
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt, timeout_seconds,
    task_type, target
)
SELECT 'default', overlay($1::uuid::text placing lpad(to_hex(n), 12, '0') from 25)::uuid, 2, 10, 0,
    now(), now(), 1, 1, 30, 'x', '{}'
FROM generate_series(1, 20000) AS n
"""
TRIES = """
INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at)
SELECT tenant_id, id, 1, 1, 1, now() FROM gnomon.task_archive
"""
COPIES = """
INSERT INTO gnomon.task_copy (tenant_id, original, id)
SELECT 'default', md5(n::text)::uuid, md5(n::text)::uuid FROM generate_series(1, 10000) AS n
"""
TABLES = ("task_copy", "idempotency", "event", "limit_bucket", "usage", "node")


async def fill(connection: Connection) -> None:
    now = await database_now(connection)
    await connection.execute(KEYS, "old", 10_000, -1.0)
    await connection.execute(EVENTS, lowest_id(now - timedelta(days=8)), 10_000)
    await connection.execute(BUCKETS, 10_000)
    await connection.execute(USAGE)
    await connection.execute(COPIES)
    await connection.execute(NODES)


async def empty(connection: Connection) -> None:
    for table in TABLES:
        await connection.execute(f"DELETE FROM gnomon.{table}")


async def never_analyzed(connection: Connection) -> None:
    await fill(connection)


async def dead_rows(connection: Connection) -> None:
    """Nearly empty, and believed to be so, but with all the dead rows still there."""
    await fill(connection)
    await empty(connection)
    for table in TABLES:
        await connection.execute(f"ANALYZE gnomon.{table}")


async def grown_since(connection: Connection) -> None:
    for table in TABLES:
        await connection.execute(f"ANALYZE gnomon.{table}")
    await fill(connection)


@pytest.mark.parametrize("state", [never_analyzed, dead_rows, grown_since])
async def test_rows_past_their_time_are_found_by_their_index(
    connection: Connection, state: Callable[[Connection], Awaitable[None]]
) -> None:
    # Autovacuum must not get ahead of the test.
    for table in TABLES:
        await connection.execute(f"ALTER TABLE gnomon.{table} SET (autovacuum_enabled = false)")
    await state(connection)
    now = await database_now(connection)
    # As it is for the transaction of a batch.
    await connection.execute(BY_INDEX.replace("SET LOCAL", "SET"))
    ids = [1, 2, 3]
    for statement, args, indexes in (
        ("remove_keys", (now, 1000), {"idempotency_expiry"}),
        ("remove_events", (lowest_id(now), 1000, "t", UUID(int=0)), {"event_pkey"}),
        ("remove_copies", (lowest_id(now), 1000), {"task_copy_age"}),
        ("remove_usage", (KEPT_DAYS, 1000), {"usage_pkey"}),
        ("idle_buckets", (0, 1000), {"limit_bucket_pkey", "limit_lease_pkey"}),
        ("hold_buckets", (ids,), {"limit_bucket_pkey"}),
        (
            "remove_buckets",
            (ids,),
            {"limit_bucket_pkey", "limit_lease_pkey", "limit_window_pkey", "limiter_pkey"},
        ),
    ):
        for used in await plans(connection, statement, *args):
            assert used.indexes == indexes, statement
            assert used.scanned <= {"event_order"}, statement
    for used in await plans(connection, "remove_nodes", 1000):
        assert "task_running" in used.indexes
        assert used.scanned <= {"node"}


@pytest.mark.parametrize("analyzed", [False, True])
async def test_days_are_looked_at_and_cleared_page_by_page(
    connection: Connection, analyzed: bool
) -> None:
    now = await database_now(connection)
    today = {
        parent: Partition(parent, partition_name(parent, now.date()), now.date(), now.date() + DAY)
        for parent in PARENTS
    }
    await connection.execute(FINISHED, lowest_id(now))
    await connection.execute(TRIES)
    if analyzed:
        await connection.execute("ANALYZE gnomon.task_archive, gnomon.execution, gnomon.task")
    await connection.execute(BY_PAGE.replace("SET LOCAL", "SET"))
    for partition in today.values():
        for text in (asking(partition, 0, 512), clearing(partition, 0, 512)):
            told = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {text}", now, lowest_id(now))
            used = Used(json.loads(told)[0]["Plan"])
            assert used.of_pages == {partition.name}
            assert not used.scanned
    for used in await plans(connection, "live_days", lowest_id(now)):
        assert used.indexes == {"task_pkey"}
        assert not used.scanned
