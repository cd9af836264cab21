"""Reads stay cheap however much is finished: by their keys, in order, without sorting it all."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from tests.plans.test_hot_plans import plans

from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"

FINISHED = 50_000
LIVE = 5_000
NEWEST = UUID(int=(1 << 128) - 1)
# The examined window holds 10 000: whatever sorts more than that sorts everything.
MOST_SORTED = 10_000

# Ids of the last minutes, so that they fall into the partitions of today (or yesterday).
_ID = """
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n), 12, '0')
     || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid
"""
_FILL = f"""
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target, payload, tags
    )
    SELECT 'default', {_ID}, n % 4, 10, 0, gnomon.now(), gnomon.now(), 1, 1, 30, 'type' || n % 10,
           '{{}}', to_json(repeat('x', 100)), CASE WHEN n % 7 = 0 THEN '["a"]'::jsonb END
    FROM generate_series(1, {FINISHED}) AS n;
    INSERT INTO gnomon.task (tenant_id, id, state, execute_at, due_at, task_type, target)
    SELECT 'default', {_ID}, CASE WHEN n % 5 = 0 THEN 4 ELSE 0 END,
           gnomon.now() + interval '1 hour', gnomon.now() + interval '1 hour', 'live', '{{}}'
    FROM generate_series(1, {LIVE}) AS n;
    ANALYZE gnomon.task, gnomon.task_archive;
"""

ONE_TASK: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("get_task", ()),
    ("executions", (-1, 51, None)),
    ("executions", (5, 51, 1)),
    ("last_executions", (50,)),
    ("transitions", (0, 51)),
)
NO_STATUS = (None, None, None)
NO_FILTER = (None,) * 8
FILTERS: dict[str, tuple[Any, ...]] = {
    "nothing": (*NO_STATUS, *NO_FILTER),
    "completed": ([10], None, None, *NO_FILTER),
    "scheduled": ([0], False, False, *NO_FILTER),
    "ready": ([0], True, None, *NO_FILTER),
    "cancelled": ([11], None, None, *NO_FILTER),
    "type": (*NO_STATUS, "type3", *NO_FILTER[1:]),
    "unknown type": (*NO_STATUS, "none", *NO_FILTER[1:]),
    "lane": (*NO_STATUS, None, 3, *NO_FILTER[2:]),
    "tag": (*NO_STATUS, None, None, "a", *NO_FILTER[3:]),
    "cron job": (*NO_STATUS, None, None, None, NEWEST, *NO_FILTER[4:]),
    "queue": (*NO_STATUS, *NO_FILTER[2:], "none", None),
    "batch": (*NO_STATUS, *NO_FILTER[1:], NEWEST),
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


@asynccontextmanager
async def behind_the_wall(connection: Connection) -> AsyncIterator[None]:
    """As the API reads: see `Database.scoped`."""
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE gnomon_tenant")
        await connection.execute("SET LOCAL gnomon.tenant = 'default'")
        yield


async def plan_of(connection: Connection, name: str, *args: Any) -> list[dict[str, Any]]:
    async with behind_the_wall(connection):
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON, ANALYZE) {query(name)}", *args)
    return list(nodes(json.loads(text)[0]["Plan"]))


def assert_reads_by_key(found: list[dict[str, Any]]) -> None:
    for node in found:
        rows = node["Actual Rows"] * node["Actual Loops"]
        if node["Node Type"] == "Seq Scan":
            assert rows <= 1, node
        if "Sort" in node["Node Type"]:
            assert rows <= MOST_SORTED, node
        if "Index" in node["Node Type"]:
            assert rows <= MOST_SORTED, node


async def test_a_list_reads_by_key_whatever_the_filter(connection: Connection) -> None:
    await connection.execute(_FILL)
    cursor = await connection.fetchval(
        "SELECT id FROM gnomon.task_archive ORDER BY id DESC OFFSET 20000 LIMIT 1"
    )
    for chosen in FILTERS.values():
        for after in (NEWEST, cursor):
            assert_reads_by_key(
                await plan_of(connection, "list_tasks", "default", after, 51, *chosen)
            )


async def test_a_page_stops_when_it_is_full(connection: Connection) -> None:
    await connection.execute(_FILL)
    found = await plan_of(connection, "list_tasks", "default", NEWEST, 51, *FILTERS["nothing"])
    scans = [node["Actual Rows"] for node in found if node["Node Type"].startswith("Index")]
    assert sum(scans) < 200


async def test_dead_letters_are_read_by_their_own_index(connection: Connection) -> None:
    await connection.execute(_FILL)
    for tag in (None, "none"):
        chosen = [None, None, tag, *NO_FILTER[3:], None]
        found = await plan_of(connection, "list_dead", "default", NEWEST, 51, *chosen)
        assert_reads_by_key(found)
        assert "task_dead" in {node.get("Index Name") for node in found}


async def test_a_task_is_read_by_key(connection: Connection) -> None:
    await connection.execute(_FILL)
    task_id = await connection.fetchval("SELECT id FROM gnomon.task_archive LIMIT 1")
    for name, more in ONE_TASK:
        found = await plan_of(connection, name, "default", task_id, *more)
        assert_reads_by_key(found)
        # Only the partition of that day, and the live table.
        archives = {
            node["Relation Name"]
            for node in found
            if node.get("Relation Name", "").startswith("task_archive")
        }
        assert len(archives) == 1


async def test_plans_that_are_made_once_for_all_values_read_by_key_too(
    connection: Connection,
) -> None:
    await connection.execute(_FILL)
    task_id = await connection.fetchval("SELECT id FROM gnomon.task LIMIT 1")
    listed = ("default", NEWEST, 51)
    async with behind_the_wall(connection):
        for used in await plans(connection, "list_tasks", *listed, *NO_STATUS, *NO_FILTER):
            assert not {name for name in used.scanned if name.startswith("task")}
        for used in await plans(connection, "list_dead", *listed, *NO_FILTER, None):
            assert "task_dead" in used.indexes
            assert "task" not in used.scanned
        for name, more in (*ONE_TASK, ("lock_task", ())):
            for used in await plans(connection, name, "default", task_id, *more):
                assert "task_pkey" in used.of_tasks
                assert "task" not in used.scanned
