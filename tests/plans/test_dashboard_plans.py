"""What pages list beside tasks is read by its keys: of one tenant, a page at a time, whatever
PostgreSQL knows of the tables."""

import re
from datetime import date, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import plans
from tests.plans.test_list_plans import _ID, NEWEST

FILL = f"""
INSERT INTO gnomon.tenant (id) SELECT 't' || n FROM generate_series(1, 99) AS n;
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail, acknowledged_at)
SELECT CASE n % 10 WHEN 0 THEN 'other' ELSE 'default' END, {_ID}, 'kind', gnomon.now(), '{{}}',
    CASE WHEN n % 2 = 0 THEN gnomon.now() END
FROM generate_series(1, 40000) AS n;
INSERT INTO gnomon.cron_job (tenant_id, id, name, created_at, updated_at, definition)
SELECT CASE n % 10 WHEN 0 THEN 'other' ELSE 'default' END, {_ID}, n::text, gnomon.now(),
    gnomon.now(), '{{}}'
FROM generate_series(1, 5000) AS n;
INSERT INTO gnomon.bulk_operation (
    tenant_id, id, asked, started_at, ended_at, status, position, total, capped
)
SELECT 'default', {_ID}, '{{}}', gnomon.now(), gnomon.now(), 'FINISHED', gen_random_uuid(), 1, false
FROM generate_series(1, 5000) AS n;
INSERT INTO gnomon.session (name, sealed, ends_at)
SELECT sha256(n::text::bytea), '\\x00', gnomon.now() + n * interval '1 minute'
FROM generate_series(1, 5000) AS n;
INSERT INTO gnomon.usage (tenant_id, day, session)
SELECT 't' || t, current_date - n, 0 FROM generate_series(1, 99) AS t, generate_series(1, 200) AS n;
INSERT INTO gnomon.task (tenant_id, id, due_at, task_type, target, state, node)
SELECT CASE n % 10 WHEN 0 THEN 'other' ELSE 'default' END, {_ID}, gnomon.now(), 'type', '{{}}',
    CASE WHEN n % 1000 = 0 THEN 1 ELSE 0 END, CASE WHEN n % 1000 = 0 THEN gen_random_uuid() END
FROM generate_series(1, 40000) AS n;
INSERT INTO gnomon.tenant (id) SELECT 'u' || n FROM generate_series(1, 2000) AS n;
INSERT INTO gnomon.limiter (tenant_id, name, task_type, concurrency)
SELECT 'default', n::text, 'type', 5 FROM generate_series(1, 50) AS n
UNION ALL SELECT 'u' || n, 'a', 'type', 5 FROM generate_series(1, 2000) AS n;
INSERT INTO gnomon.saved_view (tenant_id, name, filter, columns, created_at)
SELECT 'u' || n, 'view', '{{}}', '{{}}', gnomon.now() FROM generate_series(1, 2000) AS n;
INSERT INTO gnomon.task_type (tenant_id, name, schema)
SELECT 'u' || n, 'type', '{{}}' FROM generate_series(1, 2000) AS n;
INSERT INTO gnomon.api_key (id, tenant_id, name, hash, hint, roles)
SELECT {_ID}, CASE WHEN n % 1000 = 0 THEN NULL ELSE 'u' || 1 + n % 2000 END, 'key',
    sha256(n::text::bytea), 'abcd',
    CASE WHEN n % 1000 = 0 THEN '{{operator}}' ELSE '{{read}}' END::text[]
FROM generate_series(1, 10000) AS n;
INSERT INTO gnomon.webhook_secret (id, tenant_id, scheme, secret)
SELECT {_ID}, 'u' || n % 2000 + 1, 'v1', n::text FROM generate_series(1, 5000) AS n;
INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
SELECT md5(n::text)::uuid, 'n', '1', 10, gnomon.now(), gnomon.now()
FROM generate_series(1, 20) AS n;
INSERT INTO gnomon.breaker (tenant_id, host, node, until)
SELECT 'u' || n, 'host', md5((n % 20 + 1)::text)::uuid, gnomon.now()
FROM generate_series(1, 2000) AS n;
INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
SELECT 'u' || n % 2000 + 1, 'a', n::text FROM generate_series(1, 10000) AS n;
INSERT INTO gnomon.limit_window (bucket, until, starts)
SELECT id, gnomon.now() + n * interval '1 second', 1
FROM gnomon.limit_bucket, generate_series(1, 3) AS n;
INSERT INTO gnomon.service_level (tenant_id, week, task_type, cron_job_id)
SELECT 'u' || n, current_date - 7 * w, 'type', gen_random_uuid()
FROM generate_series(1, 2000) AS n, generate_series(1, 4) AS w;
INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at)
SELECT 'default', id, n, n, 1, gnomon.now()
FROM (SELECT id FROM gnomon.task LIMIT 5000) AS t, generate_series(1, 3) AS n;
"""


BUCKETS = {"limit_bucket_tenant_id_limiter_key_key", "limit_window_pkey", "limiter_pkey"}
OF_FEW_ROWS = {
    "list_webhook_secrets", "limiter_starts", "open_breakers", "get_job", "list_saved_views",
    "list_task_types", "list_limiters", "limits_around", "list_api_keys",
    "list_levels",
}  # fmt: skip
SMALL = {"node", "usage"}  # as large as the fleet; read by the day
_PART = re.compile(r"_(\d{8}|gap|old)(?=_)")


@pytest.fixture(params=["never", "now"])
async def filled(connection: Connection, request: pytest.FixtureRequest) -> Connection:
    await connection.execute(FILL)
    if request.param == "now":
        await connection.execute("ANALYZE")
    return connection


def statements(now: datetime, one: UUID) -> list[tuple[str, tuple[Any, ...], set[str]]]:
    days = date.min, now.date()
    return [
        ("list_events", ("default", NEWEST, 51, *[None] * 6), {"event_pkey"}),
        (
            "list_events",
            ("default", NEWEST, 51, "absent", None, False, "type", ["absent"], None),
            {"event_pkey"},
        ),
        ("get_events", ("default", [one] * 50), {"event_pkey"}),
        ("open_events", ("default", 100, ["usage.recorded"]), {"event_open"}),
        ("list_jobs", ("default", NEWEST, 51, 1000, *[None] * 5), {"cron_job_pkey", "task_pkey"}),
        ("jobs_looked_at", ("default", NEWEST, 1000), {"cron_job_pkey"}),
        ("bulk_list", ("default", NEWEST, 51), {"bulk_operation_pkey"}),
        ("bulk_get", ("default", one), {"bulk_operation_pkey"}),
        ("find_session", (b"\0" * 32, now), {"session_pkey"}),
        ("usage", ("t1", *days), {"usage_pkey"}),
        ("usage_of_all", (*days, "t1", now.date(), 51), {"usage_pkey"}),
        ("list_limiters", ("u7", None), {"limiter_pkey"}),
        ("list_limiters", ("u7", "a"), {"limiter_pkey"}),
        ("limiter_keys", ("default", ["1"], [None], ["a"], 20, 20_000), {"task_running"}),
        ("running_under", ("default", ["1"], [None], ["a"], [None], 20_000), {"task_running"}),
        ("limits_around", ("default", one), {"task_pkey", "limiter_pkey"}),
        ("limiter_starts", ("u7", None), BUCKETS),
        ("limiter_starts", ("u7", ["a"]), BUCKETS),
        ("list_saved_views", ("u7",), {"saved_view_pkey"}),
        ("list_task_types", ("u7",), {"task_type_pkey"}),
        ("get_task_type", ("u7", "type"), {"task_type_pkey"}),
        ("list_tenants", ("u7", 51), {"tenant_pkey"}),
        ("list_api_keys", ("u7", NEWEST, 51), {"api_key_tenant"}),
        ("list_api_keys", (None, NEWEST, 51), {"api_key_tenant"}),
        ("list_webhook_secrets", ("u7", None), {"webhook_secret_tenant"}),
        ("open_breakers", ("u7",), {"breaker_tenant_id_host_node_key", "node_pkey"}),
        ("last_tracebacks", ("default", [one] * 50), {"execution_pkey"}),
        (
            "get_job",
            ("default", one, "7"),
            {"cron_job_pkey", "cron_job_tenant_id_name_key", "task_pkey"},
        ),
        ("list_levels", ("u7", *days, None, None, 100), {"service_level_pkey", "cron_job_pkey"}),
        ("ahead", ("default", one, 1_000), {"task_pkey", "task_due"}),
    ]


async def test_what_pages_list_is_read_by_its_keys(filled: Connection) -> None:
    now = await database_now(filled)
    wrong = []
    for name, args, indexes in statements(now, NEWEST):
        for mode, used in zip(("custom", "generic"), await plans(filled, name, *args), strict=True):
            found = {_PART.sub("", index) for index in used.indexes}
            # A tenant's own few rows may be collected by a bitmap of their index.
            whole = used.read_whole if name in OF_FEW_ROWS else used.scanned
            if not found <= indexes or whole - SMALL:
                wrong.append((name, mode, found, whole))
    assert not wrong, "\n".join(map(str, wrong))
