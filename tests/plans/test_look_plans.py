"""What chores look at every few seconds, of all tenants: found by keys and times, whatever is known
of the tables."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import plans
from tests.plans.test_pressed_plans import pinned

from gnomon.store.postgres.retention.expired_rows import BY_INDEX

TABLES = (
    "activity", "usage", "limit_bucket", "limit_lease", "condition", "event", "subscription_inbox",
    "stuck_task",
)  # fmt: skip
# Whether there is any is asked of the table itself, or of any index of it.
SUBSCRIPTIONS = {
    "subscription_pkey",
    "subscription_token_hash_key",
    "subscription_tenant_id_name_key",
}
BREAKERS = {"breaker_tenant_id_host_node_key", "breaker_node", "node_pkey"}  # as large as the fleet
Asked = list[tuple[str, tuple[Any, ...], set[str]]]
_FILL = """
INSERT INTO gnomon.activity
SELECT 't' || n % 20, 1, 'type' || n % 7, date_trunc('minute', gnomon.now())
    - make_interval(mins => n), 2, 1, 1, 1, 0, 0, 1, '{}'
FROM generate_series(1, 8000) AS n;
INSERT INTO gnomon.usage (tenant_id, day, session)
SELECT 't' || n % 400, gnomon.now()::date - n / 400, 0 FROM generate_series(1, 8000) AS n;
INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
SELECT 't' || n % 20, 'l', n FROM generate_series(1, 8000) AS n;
INSERT INTO gnomon.limit_lease (bucket, node, turn, permits, seen_at, permits_since)
SELECT id, gen_random_uuid(), 1, 1, gnomon.now(),
    CASE WHEN id % 200 = 0 THEN gnomon.now() - interval '1 hour' END
FROM gnomon.limit_bucket;
INSERT INTO gnomon.condition (kind, tenant_id, key, event_id, began_at, detail)
SELECT 'kind' || n % 20, 'default', n, gen_random_uuid(), gnomon.now(), '{}'
FROM generate_series(1, 8000) AS n;
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
SELECT 'default', gen_random_uuid(), 'kind', gnomon.now(), '{}' FROM generate_series(1, 8000);
INSERT INTO gnomon.subscription (id, name, channel, rules, created_at, updated_at)
SELECT gen_random_uuid(), n, '{}', '{}', gnomon.now(), gnomon.now()
FROM generate_series(1, 4000) AS n;
INSERT INTO gnomon.subscription_inbox (subscription_id, inbox, next_at)
SELECT id, '{}', gnomon.now() + interval '1 hour' FROM gnomon.subscription;
INSERT INTO gnomon.stuck_task (tenant_id, task_id, reason, since, found_at)
SELECT 'default', gen_random_uuid(), 'overrun', gnomon.now(), gnomon.now()
FROM generate_series(1, 4000);
"""
_LEAVE_FEW = "DELETE FROM gnomon.{0} WHERE ctid NOT IN (SELECT ctid FROM gnomon.{0} LIMIT 10)"


@pytest.fixture(
    params=["never analyzed", "analyzed while empty", "analyzed", "dead", "dead, known"]
)
async def looked_at(
    connection: Connection, database_dsn: str, request: pytest.FixtureRequest
) -> AsyncIterator[Connection]:
    analyze = f"ANALYZE {', '.join(f'gnomon.{table}' for table in TABLES)}"
    async with pinned(database_dsn):
        if request.param == "analyzed while empty":
            await connection.execute(analyze)
        await connection.execute(_FILL)
        if request.param in ("analyzed", "dead"):
            await connection.execute(analyze)
        if request.param.startswith("dead"):
            for table in TABLES:
                await connection.execute(_LEAVE_FEW.format(table))
        if request.param == "dead, known":
            await connection.execute(analyze)
        yield connection


async def wrong_plans(connection: Connection, asked: Asked) -> str:
    """A bitmap of the right entries of the right index is as good as that index."""
    wrong = [
        f"{name}: {used.indexes}, all of {used.read_whole & {*TABLES}}"
        for name, args, indexes in asked
        for used in await plans(connection, name, *args)
        if not used.indexes <= indexes or used.read_whole & {*TABLES}
    ]
    return "\n".join(wrong)


async def test_looks_go_by_index(looked_at: Connection) -> None:
    now = await database_now(looked_at)
    ids = [UUID(int=n) for n in range(500)]
    asked: Asked = [
        ("look_retry_storms", (5, 100, "kind1", 500, 25), {"activity_time", "condition_pkey"}),
        ("count_dead", (now - timedelta(minutes=5), now, 500), {"activity_time"}),
        ("entered_events", (["default"] * 500, ids), {"event_pkey"}),
        ("open_conditions", (["kind1", "kind2"],), {"condition_pkey"}),
        ("over_breakers", ("kind1", 500), {"condition_pkey", *BREAKERS}),
        ("end_conditions", (["kind1"], ["default"], ["1"]), {"condition_pkey"}),
        ("read_cursor", (), {"subscription_inbox_due", *SUBSCRIPTIONS}),
    ]
    assert not await wrong_plans(looked_at, asked)


async def test_looks_that_are_told_to_go_by_index(looked_at: Connection) -> None:
    day = (await database_now(looked_at)).date()
    asked: Asked = [
        (
            "look_starving_limiters",
            (600.0, 500, "kind1", 25),
            {"limit_lease_waiting", "limit_bucket_pkey", "condition_pkey"},
        ),
        ("look_usage", (day, "t1", 2000), {"usage_pkey"}),
        ("stuck_tasks", (200,), {"stuck_task_pkey"}),
    ]
    async with looked_at.transaction():
        await looked_at.execute(BY_INDEX)
        assert not await wrong_plans(looked_at, asked)
