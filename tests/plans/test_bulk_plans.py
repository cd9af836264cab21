"""Bulk operations find and change tasks by key, also where a large table was never analyzed."""

import json
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import pytest
from tests.plans.test_list_plans import assert_reads_by_key, behind_the_wall, nodes

from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.expired_rows import BY_INDEX

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"

NEWEST = UUID(int=(1 << 128) - 1)
NOTHING = (None,) * 13
OF_DEAD = {"bulk_dead": (None,)}  # more filters
LIVE, FINISHED = 40_000, 20_000

_ID = """
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n), 12, '0')
     || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid
"""
_FILL = f"""
    INSERT INTO gnomon.task (tenant_id, id, state, execute_at, due_at, task_type, target)
    SELECT CASE WHEN n % 4 = 0 THEN 'other' ELSE 'default' END, {_ID},
           CASE WHEN n % 3 = 0 THEN 4 ELSE 0 END,
           gnomon.now() + interval '1 hour', gnomon.now() + interval '1 hour', 'live', '{{}}'
    FROM generate_series(1, {LIVE}) AS n;
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target
    )
    SELECT 'default', {_ID}, 0, 10, 0, gnomon.now(), gnomon.now(), 1, 1, 30, 'type', '{{}}'
    FROM generate_series(1, {FINISHED}) AS n;
"""


async def plan_of(connection: Connection, name: str, *args: Any) -> list[dict[str, Any]]:
    """As a chunk runs it; what it changes is undone."""
    async with behind_the_wall(connection):
        await connection.execute(BY_INDEX)
        await connection.execute("SAVEPOINT before")
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON, ANALYZE) {query(name)}", *args)
        await connection.execute("ROLLBACK TO SAVEPOINT before")
    return list(nodes(json.loads(text)[0]["Plan"]))


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    await connection.execute("ALTER TABLE gnomon.task SET (autovacuum_enabled = false)")
    await connection.execute(_FILL)
    return connection


async def test_tasks_are_found_by_key(filled: Connection) -> None:
    for name in ("bulk_dead", "bulk_live", "bulk_all"):
        for error in (None, "none"):
            chosen = (*NOTHING[:11], error, None, *OF_DEAD.get(name, ()))
            found = await plan_of(filled, name, "default", NEWEST, 500, 10_000, *chosen)
            assert_reads_by_key(found)
            if name == "bulk_dead":
                assert "task_dead" in {node.get("Index Name") for node in found}


async def test_a_chunk_that_is_full_stops(filled: Connection) -> None:
    for name in ("bulk_dead", "bulk_live", "bulk_all"):
        chosen = (*NOTHING, *OF_DEAD.get(name, ()))
        found = await plan_of(filled, name, "default", NEWEST, 100, 10_000, *chosen)
        read = sum(
            node["Actual Rows"] * node["Actual Loops"]
            for node in found
            if "Index" in node["Node Type"]
        )
        assert read < 500, name


async def test_tasks_are_changed_by_key(filled: Connection) -> None:
    ids = [
        row["id"]
        for row in await filled.fetch(
            "SELECT id FROM gnomon.task WHERE tenant_id = 'default' AND state = 4 LIMIT 500"
        )
    ]
    now = await filled.fetchval("SELECT gnomon.now()")
    span = (min(ids), max(ids))
    for name, more in (
        ("bulk_hold", ()),
        ("bulk_finished", span),
        ("bulk_redrive", ()),
        ("bulk_hasten", ()),
        ("bulk_reschedule", (now,)),
        ("bulk_interrupt", ()),
        ("bulk_finish", (13, "archived", *span, "who", "why")),
        ("bulk_delete", span),
    ):
        found = await plan_of(filled, name, "default", ids, *more)
        for node in found:
            if node["Node Type"] == "Seq Scan":
                assert node["Actual Rows"] * node["Actual Loops"] <= 1, (name, node)
            if "Index" in node["Node Type"]:
                assert node["Actual Rows"] * node["Actual Loops"] <= 500, (name, node)


async def test_the_newest_task_is_one_probe(filled: Connection) -> None:
    found = await plan_of(filled, "bulk_newest", "default")
    assert all(node["Actual Rows"] * node["Actual Loops"] <= 2 for node in found)
