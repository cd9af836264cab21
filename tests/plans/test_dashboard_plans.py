"""What pages list beside tasks is read by its keys: of one tenant, a page at a time, whatever
PostgreSQL knows of the tables."""

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
INSERT INTO gnomon.limiter (tenant_id, name, task_type, concurrency)
SELECT 'default', n::text, 'type', 5 FROM generate_series(1, 50) AS n;
"""


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
        ("list_limiters", ("default", None), {"task_running", "limiter_pkey"}),
        ("limiter_keys", ("default", ["1"], 20), {"task_running", "limiter_pkey"}),
    ]


async def test_what_pages_list_is_read_by_its_keys(filled: Connection) -> None:
    now = await database_now(filled)
    wrong = []
    for name, args, indexes in statements(now, NEWEST):
        for mode, used in zip(("custom", "generic"), await plans(filled, name, *args), strict=True):
            if not used.indexes <= indexes or used.scanned - {"limiter", "usage"}:
                wrong.append((name, mode, used.indexes, used.scanned))
    assert wrong == []
