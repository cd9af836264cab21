"""Activity is read by its keys, whatever is known of the table; what is scheduled is counted by the
index of flows, within a bound."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import explained, plans
from tests.plans.test_list_plans import _ID, behind_the_wall, nodes

from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.expired_rows import BY_INDEX

# 20 tenants with 20 types and all types, by the minute of 20 hours and by the hour of 20 days.
FILL = """
INSERT INTO gnomon.activity
SELECT CASE t WHEN 0 THEN 'default' ELSE 't' || t END, span,
    CASE k WHEN 0 THEN '' ELSE 'type' || k END,
    date_trunc('hour', gnomon.now()) - make_interval(mins => n * span), 2, 1, 1, 1, 0, 0, 1,
    array_fill(1::bigint, ARRAY[17])
FROM generate_series(0, 19) AS t, generate_series(0, 20, 4) AS k, generate_series(1, 480) AS n,
    unnest('{1, 60}'::smallint[]) AS span
"""
SCHEDULED = f"""
INSERT INTO gnomon.task (tenant_id, id, lane, due_at, task_type, target)
SELECT CASE n % 10 WHEN 0 THEN 'other' ELSE 'default' END, {_ID}, n % 4,
    gnomon.now() + n * interval '1 second', 'type' || n % 5, '{{}}'
FROM generate_series(1, 100000) AS n
"""
HOUR = timedelta(hours=1)


def statements(now: datetime) -> list[tuple[str, tuple[Any, ...], set[str]]]:
    minutes = now - HOUR, now, timedelta(minutes=1)
    hours = now - 24 * HOUR, now, HOUR
    own = {"activity_pkey"}
    return [
        ("activity_points", ("default", 1, "", *minutes, None), own),
        ("activity_points", ("default", 60, "type4", *hours, 2), own),
        ("activity_types", ("default", 1, *minutes[:2], None, 1000), own),
        ("activity_tenants", (60, *hours, None, 50), {"activity_time"}),
        ("activity_tenants", (1, *minutes, 2, 50), {"activity_time"}),
    ]


@pytest.mark.parametrize("analyzed", ["never", "empty", "now"])
async def test_activity_is_read_by_its_keys(connection: Connection, analyzed: str) -> None:
    if analyzed == "empty":
        await connection.execute("ANALYZE gnomon.activity")
    await connection.execute(FILL)
    if analyzed == "now":
        await connection.execute("ANALYZE gnomon.activity")
    now = await database_now(connection)
    for name, args, indexes in statements(now):
        for used in await plans(connection, name, *args):
            assert used.indexes, name
            if analyzed == "now":  # PostgreSQL knows what each index costs; see the next test
                continue
            assert used.indexes == indexes, name
            assert "activity" not in used.scanned, name
    async with connection.transaction():
        await connection.execute(BY_INDEX)
        old = now - 10 * HOUR
        for used in await plans(connection, "remove_activity", old, old, 100):
            assert used.indexes == {"activity_time"}


@pytest.mark.parametrize("analyzed", [False, True])
async def test_activity_is_read_from_where_it_begins(
    connection: Connection, analyzed: bool
) -> None:
    """The index alone says little: a scan may begin at the tenant's first row."""
    await connection.execute(FILL)
    if analyzed:
        await connection.execute("ANALYZE gnomon.activity")
    now = await database_now(connection)
    within = now - 3 * HOUR, now
    for mode in ("force_custom_plan", "force_generic_plan"):
        async with behind_the_wall(connection):
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            for name, args, most in (
                ("activity_points", ("default", 60, "type8", *within, HOUR, None), 12),
                ("activity_types", ("default", 60, *within, None, 1000), 90),
            ):
                plan = await explained(connection, name, *args, options=", ANALYZE, BUFFERS")
                assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= most, name


@pytest.mark.parametrize("analyzed", [False, True])
async def test_tenants_are_told_apart_without_comparing_all_with_all(
    connection: Connection, analyzed: bool
) -> None:
    await connection.execute(FILL)
    if analyzed:
        await connection.execute("ANALYZE gnomon.activity")
    now = await database_now(connection)
    first = (now - 24 * HOUR).replace(minute=0, second=0, microsecond=0)
    args = (60, first, now, HOUR, None, 10)
    for mode in ("force_custom_plan", "force_generic_plan"):
        async with connection.transaction():
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            plan = await explained(connection, "activity_tenants", *args, options=", ANALYZE")
            top = [node for node in nodes(plan) if node.get("CTE Name") == "top"]
            assert [node["Actual Loops"] for node in top] == [1]


@pytest.mark.parametrize("analyzed", [False, True])
async def test_of_all_tenants_only_their_own_rows_are_read(
    connection: Connection, analyzed: bool
) -> None:
    """Not those of their types, however many there are; and no moment before the first row."""
    await connection.execute(FILL)
    if analyzed:
        await connection.execute("ANALYZE gnomon.activity")
    now = await database_now(connection)
    for first in (now - 24 * HOUR, now - 200_000 * HOUR):
        args = (60, first.replace(minute=0, second=0, microsecond=0), now, 24 * HOUR, None, 10)
        for mode in ("force_custom_plan", "force_generic_plan"):
            async with connection.transaction():
                await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
                plan = await explained(connection, "activity_tenants", *args, options=", ANALYZE")
                read = [node for node in nodes(plan) if node.get("Relation Name") == "activity"]
                hours = 25 if first > now - 200 * HOUR else 482
                for node in read:
                    assert node["Index Name"] == "activity_time"
                    assert node.get("Rows Removed by Filter", 0) == 0
                    assert node["Actual Loops"] <= hours
                    assert node["Actual Rows"] * node["Actual Loops"] <= 20.5 * hours


async def test_what_is_scheduled_is_counted_within_a_bound(connection: Connection) -> None:
    await connection.execute(SCHEDULED)
    args = ("default", 2_000, 20_000, 50)
    async with behind_the_wall(connection):
        for used in await plans(connection, "upcoming", *args):
            assert used.indexes == {"task_flow"}
            assert "task" not in used.scanned
        text = await connection.fetchval(
            f"EXPLAIN (FORMAT JSON, ANALYZE) {query('upcoming')}", *args
        )
    read = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes(json.loads(text)[0]["Plan"])
        if node.get("Relation Name") == "task"
    )
    assert 10_000 < read <= 41_000
