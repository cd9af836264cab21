"""The tasks that belong to one are found by keys, however many runs its cron job has had."""

from typing import Any

import pytest
from tests.integration.support import Connection, database_now
from tests.plans.test_cron_plans import _LEDGER, _RUNS, RUNS
from tests.plans.test_hot_plans import explained, nodes_of

from gnomon.store.postgres.tasks.reading import IN_ORDER

# One job that ran often, among many that did not.
_BUSY = """
INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id)
SELECT md5('busy')::uuid, gnomon.now() - make_interval(secs => n), 'default', md5(n::text)::uuid
FROM generate_series(-9, 20000) AS n
"""
_COPIES = """
INSERT INTO gnomon.task_copy (tenant_id, original, id)
SELECT 'default', $1, md5(n::text)::uuid FROM generate_series(1, 20000) AS n
"""
MOST = 2 * 20 + 1  # entries of the ledger


@pytest.mark.parametrize("analyzed", [True, False])
async def test_related_tasks_are_read_by_key(connection: Connection, *, analyzed: bool) -> None:
    await connection.execute(_RUNS, RUNS)
    await connection.execute(_LEDGER)
    await connection.execute(_BUSY)
    task_id = await connection.fetchval("SELECT id FROM gnomon.task LIMIT 1")
    await connection.execute(_COPIES, task_id)
    if analyzed:
        await connection.execute("ANALYZE gnomon.task, gnomon.occurrence, gnomon.task_copy")
    job = await connection.fetchval("SELECT md5('busy')::uuid")
    asked: list[Any] = ["default", task_id, task_id, job, await database_now(connection)]
    for mode in ("force_custom_plan", "force_generic_plan"):
        async with connection.transaction():
            await connection.execute(f"{IN_ORDER}; SET LOCAL plan_cache_mode = {mode}")
            plan = await explained(connection, "related_tasks", *asked, options=", ANALYZE")
        for node in nodes_of(plan):
            assert node["Actual Rows"] * node["Actual Loops"] <= MOST, node
            assert node.get("Rows Removed by Filter", 0) * node["Actual Loops"] <= MOST, node
