"""Counting stays cheap however much there is: every statement walks an index and stops."""

import json
from typing import Any
from uuid import UUID

from tests.integration.support import Connection
from tests.plans.test_hot_plans import plans
from tests.plans.test_list_plans import NO_FILTER, behind_the_wall, nodes

from gnomon.store.postgres.queries import query

ROWS = 100_000
MOST = 10_001
ALL_IDS = (UUID(int=0), UUID(int=2**128 - 1))
FILTERS = tuple(
    (*chosen, *ALL_IDS)
    for chosen in (NO_FILTER, ("type3", *NO_FILTER[1:]), (None, None, "a", *NO_FILTER[3:]))
)
WAITING = ("default", 1_000, MOST, 20_000)
DUE = ("default", 1_000, MOST, 50_000)

_ID = """
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n), 12, '0')
     || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid
"""
_FILL = f"""
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target
    )
    SELECT 'default', {_ID}, n % 4, 10, 0, gnomon.now(), gnomon.now(), 1, 1, 30, 'type' || n % 10,
           '{{}}'
    FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO gnomon.task (tenant_id, id, lane, state, due_at, task_type, target, node)
    SELECT CASE WHEN n % 2 = 0 THEN 'default' ELSE 'other' END, {_ID}, n % 4,
           CASE WHEN n % 100 = 0 THEN 1 WHEN n % 100 = 1 THEN 4 ELSE 0 END,
           gnomon.now() + (n - 70000) * interval '1 second', 'type' || n % 10, '{{}}',
           CASE WHEN n % 100 = 0 THEN md5((n % 300)::text)::uuid END
    FROM generate_series(1, {ROWS}) AS n;
    ANALYZE gnomon.task, gnomon.task_archive;
"""


async def read_by(connection: Connection, name: str, *args: Any) -> dict[str, float]:
    """The rows that each scan of a large table has read, by its index; the statement is run."""
    text = await connection.fetchval(f"EXPLAIN (FORMAT JSON, ANALYZE) {query(name)}", *args)
    read: dict[str, float] = {}
    for node in nodes(json.loads(text)[0]["Plan"]):
        if node.get("Relation Name", "").startswith("task"):
            by = node.get("Index Name", node["Node Type"])
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            read[by] = read.get(by, 0) + rows * node["Actual Loops"]
    return read


async def test_waiting_tasks_are_counted_by_the_index_of_flows(connection: Connection) -> None:
    await connection.execute(_FILL)
    async with behind_the_wall(connection):
        for chosen in FILTERS:
            for used in await plans(connection, "count_by_flow", *WAITING, *chosen):
                assert used.of_tasks == {"task_flow"}
                assert "task" not in used.scanned
            read = await read_by(connection, "count_by_flow", *WAITING, *chosen)
            assert set(read) == {"task_flow"}
            assert read["task_flow"] <= 2 * 20_000 + 1_000
    await ready_tasks_are_counted_up_to_a_bound(connection)


async def test_due_flows_are_found_and_counted_by_their_index(connection: Connection) -> None:
    await connection.execute(_FILL.replace("ANALYZE gnomon.task, gnomon.task_archive;", ""))
    async with behind_the_wall(connection):
        for used in await plans(connection, "due_flows", *DUE):
            assert used.of_tasks == {"task_flow"}
            assert "task" not in used.scanned
        read = await read_by(connection, "due_flows", *DUE)
        assert set(read) == {"task_flow"}
        assert read["task_flow"] <= 50_000 + 2 * 1_000
        rows = await connection.fetch(query("due_flows"), *DUE)
    assert sum(row["due"] for row in rows) > 30_000
    assert not any(row["more"] for row in rows)


async def test_running_tasks_are_counted_by_their_own_index(connection: Connection) -> None:
    await connection.execute(_FILL)
    for most in (500, 50_000):
        for chosen in FILTERS:
            for used in await plans(connection, "count_running", "default", most, *chosen):
                assert used.of_tasks == {"task_running"}
                assert "task" not in used.scanned
            read = await read_by(connection, "count_running", "default", most, *chosen)
            assert read["task_running"] <= most


async def test_the_others_are_counted_from_the_newest_back(connection: Connection) -> None:
    await connection.execute(_FILL)
    async with behind_the_wall(connection):
        for chosen in FILTERS:
            for used in await plans(connection, "count_others", "default", MOST, *chosen):
                assert {"task_dead", "task_pkey"} <= used.indexes
                assert not {name for name in used.scanned if name.startswith("task")}
            read = await read_by(connection, "count_others", "default", MOST, *chosen)
            assert "Seq Scan" not in read
            assert max(read.values()) <= MOST


async def ready_tasks_are_counted_up_to_a_bound(connection: Connection) -> None:
    lanes = ["default", "other"], [100, 100], 1_000
    read = await read_by(connection, "ready_of_lanes", *lanes)
    assert read.keys() == {"task_flow"}
    assert sum(read.values()) < 2_000, "100 of each lane, and a probe for each flow"
    shards = [*range(0, 256, 8)], 100
    read = await read_by(connection, "ready_of_shards", *shards)
    assert read.keys() == {"task_due"}
    assert sum(read.values()) <= 3_200
    for name, args in (("ready_of_lanes", lanes), ("ready_of_shards", shards)):
        for used in await plans(connection, name, *args):
            assert not used.scanned, name
