"""What the watchdog asks every second, with a long ledger and many running tasks around."""

from datetime import timedelta
from uuid import UUID

import pytest
from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import filled, plans

from gnomon.clock import new_id, new_incarnation
from gnomon.model.ids import lowest_id
from gnomon.store.postgres.levels.level_store import BY_INDEX
from gnomon.store.postgres.retention.partitions import partition_name

__all__ = ["filled"]

FIRES = 20_000
WATCHED = 50

_LEDGER = """
INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id, sla_at)
SELECT $1, date_trunc('day', gnomon.now()) + make_interval(secs => n), tenant_id, id,
    CASE WHEN n <= $3 THEN gnomon.now() - interval '1 minute' END
FROM (SELECT tenant_id, id, row_number() OVER () AS n FROM gnomon.task LIMIT $2) AS runs
"""
_JOBS = """
INSERT INTO gnomon.cron_job (tenant_id, id, name, created_at, updated_at, definition)
SELECT 'default', md5(n::text)::uuid, n::text, gnomon.now(), gnomon.now(), '{}'
FROM generate_series(1, 5000) AS n
"""


async def test_fires_are_judged_by_key(filled: Connection) -> None:
    await filled.execute(_LEDGER, new_incarnation(), FIRES, WATCHED)
    await filled.execute(_JOBS)
    await filled.execute("ANALYZE gnomon.occurrence, gnomon.cron_job")
    now = await database_now(filled)
    today = partition_name("occurrence", now.date())
    ids = [new_id(now) for _ in range(200)]
    for used in await plans(filled, "judge_fires", ids, 1.0, 10.0, "kind", []):
        assert f"{today}_sla_at_idx" in used.indexes
        assert f"{today}_pkey" in used.indexes
        assert "task_pkey" in used.indexes
        assert "task_running" not in used.indexes
        assert not used.scanned & {"task", "cron_job", today}


async def test_old_events_are_found_by_key(filled: Connection) -> None:
    await filled.execute(
        """
        INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
        SELECT tenant_id, id, 'kind', gnomon.now(), '{}' FROM gnomon.task
        """
    )
    await filled.execute("ANALYZE gnomon.event")
    first_kept = lowest_id(await database_now(filled) - timedelta(days=1))
    for used in await plans(filled, "remove_events", first_kept, 1000, "", UUID(int=0)):
        assert used.indexes == {"event_pkey"}
        assert used.scanned <= {"event_order"}, "one row"


@pytest.mark.parametrize("known", ["never analyzed", "analyzed while empty", "analyzed", "dead"])
async def test_watched_tasks_are_found_by_their_time_and_judged_by_key(
    filled: Connection, known: str
) -> None:
    if known == "analyzed while empty":
        await filled.execute("ANALYZE gnomon.watched_task")
    await filled.execute(
        """
        INSERT INTO gnomon.watched_task (tenant_id, task_id, start_by, look_at)
        SELECT tenant_id, id, due_at, due_at FROM gnomon.task
        """
    )
    if known == "dead":
        await filled.execute("DELETE FROM gnomon.watched_task WHERE look_at > gnomon.now()")
    if known in ("analyzed", "dead"):
        await filled.execute("ANALYZE gnomon.watched_task")
    async with filled.transaction():
        await filled.execute(BY_INDEX)
        for used in await plans(filled, "watched_tasks", 500, 1.0):
            assert {"watched_task_look", "task_pkey"} <= used.indexes
            assert not used.indexes & {"task_due", "task_flow", "task_running"}
            assert not used.scanned & {"task", "watched_task"}
