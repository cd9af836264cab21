"""Fills the table of tasks with millions that are scheduled for later."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import msgspec

from gnomon.bench.arena import PAYLOAD, Arena
from gnomon.model.targets.target import PythonTarget

DAYS = 30
_AT_ONCE = 100_000
_CONNECTIONS = 2
_BUILD_MEMORY = "1GB"

# Due from tomorrow on, in no order of time.
_SCHEDULED = """
INSERT INTO gnomon.task (
    tenant_id, id, shard, flow, execute_at, due_at, task_type, target, payload
)
SELECT $2, id, gnomon.shard_of(id), (SELECT gnomon.flow_of('noop', NULL, NULL, $3::json)),
    due, due, 'noop', $3::json, $4::json
FROM (
    SELECT uuidv7() AS id, now() + interval '1 day' + random() * $5 * interval '1 day' AS due
    FROM generate_series(1, $1::integer) OFFSET 0
) AS rows
"""
# Those that scheduled tasks are in, but for the primary key.
_INDEXES = """
SELECT name, pg_get_indexdef(name::regclass) AS definition
FROM unnest('{gnomon.task_due, gnomon.task_flow}'::text[]) AS name
"""


async def fill(
    arena: Arena, rows: int, tenant: str, advance: Callable[[int], object] = lambda _: None
) -> None:
    """Store tasks of that tenant. Indexes are built when all rows are there: one entry at a time,
    a hundred million would take hours."""
    sizes = iter([min(_AT_ONCE, rows - first) for first in range(0, rows, _AT_ONCE)])
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_without_indexes(arena.connection))
        writers = [
            await stack.enter_async_context(_connected(arena.dsn)) for _ in range(_CONNECTIONS)
        ]
        await asyncio.gather(*(_insert(each, sizes, tenant, advance) for each in writers))


async def _insert(
    connection: "asyncpg.Connection[asyncpg.Record]",
    sizes: Iterator[int],
    tenant: str,
    advance: Callable[[int], object],
) -> None:
    target = msgspec.json.encode(PythonTarget("noop")).decode()
    for size in sizes:
        await connection.execute(_SCHEDULED, size, tenant, target, PAYLOAD.decode(), DAYS)
        advance(size)


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _without_indexes(
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> AsyncIterator[None]:
    indexes = await connection.fetch(_INDEXES)
    for index in indexes:
        await connection.execute(f"DROP INDEX {index['name']}")
    yield
    await connection.execute(f"SET maintenance_work_mem = '{_BUILD_MEMORY}'")
    for index in indexes:
        await connection.execute(index["definition"])
    await connection.execute("RESET maintenance_work_mem")
