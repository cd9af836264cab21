"""The hot statements on tables that the planner knows nothing true about: never analyzed, just
loaded, analyzed while they were empty, or nearly empty and full of dead rows that an old snapshot
keeps. Each statement must have one possible plan, whatever is believed of the tables."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.conftest import connected
from tests.integration.support import Connection, database_now
from tests.plans.hot_statements import (
    BY_KEY,
    IN_ORDER,
    LARGE,
    NODE,
    OF_AN_INDEX,
    OF_ONE,
    Hot,
    Sample,
)
from tests.plans.test_hot_plans import explained, nodes_of, reads

from gnomon.wiring.processes import prepare

ROWS = 6_000
MODES = ("force_custom_plan", "force_generic_plan")

_NODE = """
INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
VALUES ($1, 'n', '1', 10, gnomon.now(), gnomon.now() + interval '1 hour')
"""
_LEASE = """
WITH bucket AS (
    INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key) VALUES ('default', 'few', '')
    RETURNING id
)
INSERT INTO gnomon.limit_lease (bucket, node, turn, permits, seen_at)
SELECT id, gen_random_uuid(), 1, 1, gnomon.now() FROM bucket
"""
_TASKS = """
INSERT INTO gnomon.task (
    tenant_id, id, task_type, target, due_at, state, node, fence, attempt, run_until
)
SELECT 'default', (
        lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint), 12, '0')
        || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15)
    )::uuid, 'x', '{"type": "python", "function": "f"}', gnomon.now() - interval '1 minute',
    r, CASE WHEN r = 1 THEN $2::uuid END, r, r,
    CASE WHEN r = 1 THEN gnomon.now() + interval '1 minute' END
FROM (SELECT n, CASE WHEN n % 2 = 0 THEN 1 ELSE 0 END AS r FROM generate_series(1, $1) AS n) AS t
"""
_JOBS = """
INSERT INTO gnomon.cron_job (tenant_id, id, name, next_fire_at, created_at, updated_at, definition)
SELECT 'default', md5(n::text)::uuid, 'job-' || n, gnomon.now() + interval '1 minute',
    gnomon.now(), gnomon.now(), '{}'
FROM generate_series(1, $1) AS n
"""
_KEYS = """
INSERT INTO gnomon.idempotency (tenant_id, key, fingerprint, answer, expires_at)
SELECT 'default', 'key-' || n, '', '1', gnomon.now() + interval '1 hour'
FROM generate_series(1, $1) AS n
"""
_INDEX = re.compile("(task|idempotency)_(?!archive|payload|type)")  # of a large table
_VACUUM = "VACUUM (ANALYZE) gnomon.task, gnomon.cron_job, gnomon.idempotency"


async def fill(connection: Connection, count: int) -> None:
    await connection.execute(_TASKS, count, NODE)
    await connection.execute(_JOBS, count)
    await connection.execute(_KEYS, count)


async def sampled(connection: Connection, count: int = 1000) -> Sample:
    async def ids(statement: str) -> list[Any]:
        return [row[0] for row in await connection.fetch(statement, count)]

    return Sample(
        now=await database_now(connection),
        waiting=await ids("SELECT id FROM gnomon.task WHERE state = 0 LIMIT $1"),
        running=await ids("SELECT id FROM gnomon.task WHERE state = 1 LIMIT $1"),
        jobs=await ids("SELECT id FROM gnomon.cron_job LIMIT $1"),
        keys=await ids("SELECT key FROM gnomon.idempotency LIMIT $1"),
        flow=await connection.fetchval("SELECT flow FROM gnomon.task LIMIT 1"),
    )


async def delete_most(connection: Connection, left: int) -> None:
    for table, key in (("task", "id"), ("cron_job", "id"), ("idempotency", "key")):
        await connection.execute(
            f"DELETE FROM gnomon.{table} WHERE {key} NOT IN"
            f" (SELECT {key} FROM gnomon.{table} LIMIT $1)",
            left,
        )


# What is done to the tables before the statements are planned.


async def never_analyzed(connection: Connection) -> None:
    await fill(connection, 10)


async def loaded(connection: Connection) -> None:
    await fill(connection, ROWS)


async def analyzed_while_empty(connection: Connection) -> None:
    await connection.execute(_VACUUM)
    await fill(connection, 10)  # on the first pages: it is planned before there are more


async def filled_after_that(connection: Connection) -> None:
    await connection.execute(_VACUUM)
    await fill(connection, ROWS)


async def few_left_and_known(connection: Connection) -> None:
    await fill(connection, ROWS)
    await delete_most(connection, 10)
    await connection.execute(_VACUUM)


async def few_left_and_unknown(connection: Connection) -> None:
    await fill(connection, ROWS)
    await connection.execute(_VACUUM)
    await delete_most(connection, 10)


STATES = [
    never_analyzed, loaded, analyzed_while_empty, filled_after_that, few_left_and_known,
    few_left_and_unknown,
]  # fmt: skip


@asynccontextmanager
async def pinned(dsn: str) -> AsyncIterator[None]:
    """A snapshot that keeps every dead row."""
    reader = await connected(dsn)
    try:
        async with reader.transaction(isolation="repeatable_read", readonly=True):
            await reader.execute("SELECT FROM gnomon.node")
            yield
    finally:
        await reader.close()


def faults(plan: dict[str, Any], hot: Hot) -> Iterator[str]:
    """How a plan reads a large table otherwise than it may. A bitmap of the right entries of the
    right index is as good as that index."""
    for node in nodes_of(plan):
        kind, table, index = node["Node Type"], node.get("Relation Name"), node.get("Index Name")
        if kind == "Seq Scan" and table in LARGE:
            yield f"{kind} on {table}"
        if index is None or not _INDEX.match(index):
            continue
        if index not in hot.indexes:
            yield f"{kind} using {index}"
        elif "Index Cond" not in node and not hot.walks:
            yield f"all of {index}"


async def wrong_plans(connection: Connection, hot: Hot, sample: Sample) -> list[str]:
    found = []
    for mode in MODES:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            plan = await explained(connection, hot.name, *hot.args(sample))
            found += [f"{hot.name}, {mode}: {fault}" for fault in faults(plan, hot)]
    return found


async def wrong_reads(connection: Connection, hot: Hot, sample: Sample) -> list[str]:
    """Tables and indexes that a function has read, and should not have; or the other way round."""
    return [
        f"{hot.name}: {name}"
        for read in await reads(connection, hot.name, *hot.args(sample))
        for name in read ^ hot.indexes
    ]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
async def test_each_hot_statement_has_one_plan(
    connection: Connection, database_dsn: str, state: Any
) -> None:
    await connection.execute(_NODE, NODE)
    await connection.execute(_LEASE)
    found: list[str] = []
    async with pinned(database_dsn):
        await state(connection)
        sample = await sampled(connection)
        for hot in BY_KEY:
            for count in sorted({min(count, len(sample.waiting)) for count in (1, 1000)}):
                found += await wrong_plans(connection, hot, sample.first(count))
        for hot in (*OF_ONE, *OF_AN_INDEX):
            found += await wrong_plans(connection, hot, sample)
        for hot in IN_ORDER:
            found += await wrong_reads(connection, hot, sample)
    assert not found, "\n".join(sorted(set(found)))


# Of pages, dead rows and all: for each key, and for whatever a statement does beside.
BUFFERS_A_KEY, BUFFERS_BESIDE = 60, 150
BUFFERS_A_SHARD = 4


async def buffers(connection: Connection, hot: Hot, sample: Sample) -> int:
    """Pages that a statement touches. What it writes is rolled back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        args = hot.args(sample)
        plan = await explained(connection, hot.name, *args, options=", ANALYZE, BUFFERS")
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    finally:
        await transaction.rollback()


async def test_dead_rows_cost_what_is_by_key_nothing(
    connection: Connection, database_dsn: str
) -> None:
    await connection.execute(_NODE, NODE)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    async with pinned(database_dsn):
        await fill(connection, 2 * ROWS)
        await delete_most(connection, 100)
        await connection.execute(_VACUUM)
        sample = await sampled(connection)
        keys = len(sample.waiting)
        over = {
            hot.name: used
            for hot in BY_KEY
            if (used := await buffers(connection, hot, sample))
            > BUFFERS_BESIDE + keys * BUFFERS_A_KEY
        }
        over |= {
            hot.name: used
            for hot in OF_ONE
            if (used := await buffers(connection, hot, sample)) > BUFFERS_BESIDE + BUFFERS_A_KEY
        }
        # From remembered places on, which are behind the dead ones; not from the beginning.
        over |= {
            hot.name: used
            for hot in IN_ORDER
            if (hot.known or hot.name in ("scan", "repair", "heads"))
            and (used := await buffers(connection, hot, sample))
            > BUFFERS_BESIDE + 256 * BUFFERS_A_SHARD
        }
    assert over == {}


async def test_a_table_that_was_restored_small_is_given_its_pages_back(
    connection: Connection, database_dsn: str
) -> None:
    await connection.execute("TRUNCATE gnomon.task, gnomon.idempotency")
    await prepare(database_dsn)
    for table in ("task", "idempotency"):
        size = await connection.fetchval(f"SELECT pg_relation_size('gnomon.{table}')")
        assert size == 128 * 8192
        assert await connection.fetchval(f"SELECT count(*) FROM gnomon.{table}") == 0
