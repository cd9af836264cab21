"""Dead letters are grouped, listed and given fingerprints by index, on a table that was never
analyzed and is full of dead rows."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import pytest
from tests.plans.test_list_plans import behind_the_wall, nodes

from gnomon.model.outcomes.fingerprint import HIGHEST
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.expired_rows import BY_INDEX
from gnomon.store.postgres.tasks.reading import IN_ORDER

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"

NEWEST = UUID(int=(1 << 128) - 1)
END = datetime.max.replace(tzinfo=UTC)
TASKS, GROUPS, RESOLVED = 10_000, 20, 4_000
NO_FILTER = (None,) * 8

_ID = """
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n), 12, '0')
     || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid
"""
_FILL = f"""
    INSERT INTO gnomon.task (
        tenant_id, id, state, due_at, task_type, target, last_error, fingerprint
    )
    SELECT CASE WHEN n % 4 = 0 THEN 'other' ELSE 'default' END, {_ID},
           CASE WHEN n % 2 = 0 THEN 4 ELSE 0 END, gnomon.now() - n * interval '1 s', 'type', '{{}}',
           'error', CASE WHEN n % 2 = 0 AND n > 20 THEN n % {2 * GROUPS} END
    FROM generate_series(1, {TASKS}) AS n;
    UPDATE gnomon.task SET attempt = 1;
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target
    )
    SELECT 'default', {_ID}, 0, 13, 0, gnomon.now(), gnomon.now() - n * interval '1 s', 1,
           1, 30, 'type', '{{}}'
    FROM generate_series(1, {RESOLVED}) AS n;
    INSERT INTO gnomon.resolution (tenant_id, task_id, resolved_at, fingerprint)
    SELECT tenant_id, id, finished_at, get_byte(uuid_send(id), 15) % {GROUPS}
    FROM gnomon.task_archive;
"""


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    for table in ("task", "resolution"):
        await connection.execute(f"ALTER TABLE gnomon.{table} SET (autovacuum_enabled = false)")
    await connection.execute(_FILL)
    return connection


async def plan_of(
    connection: Connection, name: str, *args: Any, once: bool = False
) -> list[dict[str, Any]]:
    """As a tenant reads it; `once`: by the plan that is made once for all values."""
    async with behind_the_wall(connection):
        await connection.execute(IN_ORDER)
        if once:
            await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON, ANALYZE) {query(name)}", *args)
    return list(nodes(json.loads(text)[0]["Plan"]))


def read(found: list[dict[str, Any]], table: str = "task") -> int:
    """Rows of a table that were read, also those that were thrown away; only by index."""
    rows = 0
    for node in found:
        named = node.get("Relation Name", "").startswith(table)
        if named and node["Node Type"] not in ("ModifyTable", "Tid Scan"):
            assert node["Node Type"].startswith("Index"), node
            kept = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            rows += kept * node["Actual Loops"]
    return round(rows)


@pytest.mark.parametrize("once", [False, True])
async def test_groups_take_a_step_each_and_a_bounded_count(filled: Connection, once: bool) -> None:
    whole = ("default", 0, HIGHEST, END, HIGHEST, 51, 10_000, 101, None)
    found = await plan_of(filled, "dead_groups", *whole, once=once)
    assert {node.get("Index Name") for node in found} >= {"task_dead_group"}
    # A head, an example, the first and at most 101 members of each.
    assert GROUPS / 2 < read(found) <= GROUPS * 104
    few = ("default", 0, HIGHEST, END, HIGHEST, 3, 10_000, 101, None)
    assert read(await plan_of(filled, "dead_groups", *few, once=once)) <= GROUPS + 3 * 103


@pytest.mark.parametrize("once", [False, True])
async def test_a_page_of_a_group_reads_that_page(filled: Connection, once: bool) -> None:
    for value, index in ((None, "task_dead"), (2, "task_dead_member")):
        listed = ("default", NEWEST, 51, *NO_FILTER, value)
        found = await plan_of(filled, "list_dead", *listed, once=once)
        assert index in {node.get("Index Name") for node in found}
        assert read(found) <= 60
        chosen = ("default", NEWEST, 100, 10_000, *(None,) * 13, value)
        found = await plan_of(filled, "bulk_dead", *chosen, once=once)
        assert index in {node.get("Index Name") for node in found}
        assert read(found) <= 110


@pytest.mark.parametrize("once", [False, True])
async def test_counts_stop_at_their_bound(filled: Connection, once: bool) -> None:
    assert read(await plan_of(filled, "count_group", "default", 2, 101, once=once)) == 101
    assert read(await plan_of(filled, "count_group", "default", None, 101, once=once)) <= 10


@pytest.mark.parametrize("once", [False, True])
async def test_a_page_of_resolved_ones_reads_that_page(filled: Connection, once: bool) -> None:
    listed = ("default", END, NEWEST, 51, *NO_FILTER, None)
    found = await plan_of(filled, "list_resolved", *listed, once=once)
    assert "resolution_newest" in {node.get("Index Name") for node in found}
    assert read(found, "resolution") <= 60
    assert read(found, "task_archive") <= 60


async def test_missing_fingerprints_are_found_by_their_own_index(filled: Connection) -> None:
    async with filled.transaction():
        await filled.execute(BY_INDEX)
        text = await filled.fetchval(f"EXPLAIN (FORMAT JSON, ANALYZE) {query('unknown_dead')}", 500)
        found = list(nodes(json.loads(text)[0]["Plan"]))
        assert "task_dead_unknown" in {node.get("Index Name") for node in found}
        assert read(found) <= 10
        rows = await filled.fetch(query("unknown_dead"), 500)
        keys = ([row["tenant_id"] for row in rows], [row["id"] for row in rows], [1] * len(rows))
        text = await filled.fetchval(
            f"EXPLAIN (FORMAT JSON, ANALYZE) {query('set_fingerprints')}", *keys
        )
    assert read(list(nodes(json.loads(text)[0]["Plan"]))) <= 10


async def test_old_resolutions_are_found_by_index(filled: Connection) -> None:
    async with filled.transaction():
        await filled.execute(BY_INDEX)
        text = await filled.fetchval(
            f"EXPLAIN (FORMAT JSON, ANALYZE) {query('remove_resolutions')}", END, 100
        )
    found = list(nodes(json.loads(text)[0]["Plan"]))
    assert "resolution_oldest" in {node.get("Index Name") for node in found}
    assert read(found, "resolution") <= 110
