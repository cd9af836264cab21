"""What the poller of live pages asks every second: by key, and never all of anything."""

from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import filled, plans

from gnomon.clock import new_id

__all__ = ["filled"]

_ROWS = """
    INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
    SELECT tenant_id, id, 'kind', gnomon.now(), '{}' FROM gnomon.task;
    INSERT INTO gnomon.usage (tenant_id, day, session)
    SELECT 'tenant' || n % 50, current_date - n % 40, n FROM generate_series(1, 20000) AS n;
    INSERT INTO gnomon.activity
    SELECT 'tenant' || n % 50, 1, 'type' || n % 20, gnomon.now() - n * interval '1 minute', 2,
        1, 1, 1, 0, 0, 1, '{}' FROM generate_series(1, 20000) AS n;
    INSERT INTO gnomon.cron_job (tenant_id, id, name, created_at, updated_at, definition)
    SELECT 'tenant' || n % 50, md5(n::text)::uuid, n::text, gnomon.now(), gnomon.now(), '{}'
    FROM generate_series(1, 5000) AS n;
"""


async def test_signs_are_read_by_key(filled: Connection) -> None:
    await filled.execute(_ROWS)  # never analyzed
    tenants = ["default", "other"]
    wanted = [[True] * len(tenants)] * 5
    for used in await plans(filled, "signs", tenants, *wanted, ["usage.recorded"]):
        assert {"event_pkey", "event_open", "usage_pkey", "activity_pkey"} <= used.indexes
        assert {"task_dead", "cron_job_pkey"} <= used.indexes
        assert not used.scanned & {"task", "event", "usage", "activity", "cron_job"}


async def test_signs_of_tasks_are_read_by_key(filled: Connection) -> None:
    ids = [new_id(await database_now(filled)) for _ in range(3)]
    for used in await plans(filled, "task_signs", ["default"] * 3, ids):
        assert "task_pkey" in used.indexes
        assert not any(name.startswith("task") for name in used.scanned)
