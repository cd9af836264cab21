"""Counting what a tenant has scheduled walks that tenant's tasks, and nobody else's.

The count is within a function, where its plan cannot be asked for: what it read can.
"""

import pytest
from tests.integration.support import Connection

OTHERS, OWN = 30_000, 500

_FILL = """
INSERT INTO gnomon.task (tenant_id, id, task_type, target, state, cron_job_id)
SELECT $1::text, (
        lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint), 12, '0')
        || '7' || substr(md5($1::text || n), 1, 3) || '8' || substr(md5($1::text || n), 4, 15)
    )::uuid, 'x', '{}', n % 5,
    CASE WHEN n % 10 = 0 THEN gen_random_uuid() END
FROM generate_series(1, $2) AS n
"""
_READ = """
SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables
WHERE relid = 'gnomon.task'::regclass
"""


@pytest.mark.parametrize("analysed", [True, False])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_a_count_reads_the_tenants_own_tasks_alone(
    connection: Connection, analysed: bool, mode: str
) -> None:
    await connection.execute(_FILL, "others", OTHERS)
    if analysed:
        await connection.execute("ANALYZE gnomon.task")
    await connection.execute(_FILL, "own", OWN)
    await connection.execute(f"SET plan_cache_mode = {mode}")
    for tenant, rows in (("own", OWN), ("nobody", 0)):
        async with connection.transaction():
            before = await connection.fetchrow(_READ)
            found = await connection.fetchval("SELECT gnomon.scheduled_tasks($1)", tenant)
            after = await connection.fetchrow(_READ)
        # Of every ten, two are dead letters, and one is a run of a cron job.
        assert found == rows * 7 // 10
        assert before is not None
        assert after is not None
        assert after["seq_scan"] == before["seq_scan"]
        assert after["idx_tup_fetch"] - before["idx_tup_fetch"] <= rows
