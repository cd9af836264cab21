"""The statements about recurring jobs, with many jobs and many of their runs around."""

from datetime import timedelta
from typing import Any

import pytest
from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import NODE, explained, nodes_of, plans, reads

from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.queries import query

JOBS = 20_000
RUNS = 20_000  # of which a few are queued

_JOBS = """
INSERT INTO gnomon.cron_job (tenant_id, id, name, next_fire_at, created_at, updated_at, definition)
SELECT 'default', md5(n::text)::uuid, 'job-' || n, gnomon.now() + make_interval(secs => n * 10),
    gnomon.now(), gnomon.now(), '{}'
FROM generate_series(1, $1) AS n
"""
_RUNS = """
INSERT INTO gnomon.task (
    tenant_id, id, task_type, target, due_at, state, cron_job_id, fire_at, gated
)
SELECT 'default',
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint), 12, '0')
        || '7' || substr(md5('r' || n), 1, 3) || '8' || substr(md5('r' || n), 4, 15))::uuid,
    'x', '{}', gnomon.now(), CASE WHEN n % 1000 = 0 THEN 3 ELSE 0 END,
    md5((n % 2000)::text)::uuid, gnomon.now() - make_interval(secs => n), true
FROM generate_series(1, $1) AS n
"""
_LEDGER = """
INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id)
SELECT cron_job_id, fire_at, tenant_id, id FROM gnomon.task
"""


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    await connection.execute(_JOBS, JOBS)
    await connection.execute(_RUNS, RUNS)
    await connection.execute(_LEDGER)
    await connection.execute("ANALYZE gnomon.task, gnomon.cron_job, gnomon.occurrence")
    return connection


async def some_jobs(connection: Connection, count: int) -> list[Any]:
    rows = await connection.fetch("SELECT id FROM gnomon.cron_job LIMIT $1", count)
    return [row["id"] for row in rows]


async def test_planning_reads_the_jobs_that_fire_soon_and_no_others(filled: Connection) -> None:
    until = await database_now(filled) + timedelta(seconds=10)
    for used in await reads(filled, "due_jobs", list(range(256)), until, 2):
        assert used == {"cron_job_due"}


async def test_moving_jobs_on_goes_by_primary_key(filled: Connection) -> None:
    now = await database_now(filled)
    for count in (1, 100):
        jobs = await some_jobs(filled, count)
        args: list[Any] = [
            [DEFAULT_TENANT] * count, jobs, [1] * count, [now] * count, [now] * count,
            [1] * count, [NODE] * count,
        ]  # fmt: skip
        for used in await plans(filled, "advance_jobs", *args):
            assert "cron_job" not in used.scanned
            assert used.of_tasks <= {"task_pkey", "task_queued"}
            assert "task" not in used.scanned


async def test_admission_reads_only_what_it_asks_for(filled: Connection) -> None:
    rows = await filled.fetch("SELECT id FROM gnomon.task LIMIT 100")
    keys = [row["id"] for row in rows]
    tenants = [DEFAULT_TENANT] * 100
    for used in await plans(filled, "gated_runs", tenants, keys):
        assert used.of_tasks == {"task_pkey"}
        assert "task" not in used.scanned
    jobs = await some_jobs(filled, 100)
    for used in await plans(filled, "active_runs", tenants, jobs, keys):
        assert used.of_tasks <= {"task_pkey", "task_queued"}
        assert not used.scanned


async def test_queued_runs_are_found_by_their_own_index(filled: Connection) -> None:
    jobs = await some_jobs(filled, 10)
    for used in await plans(filled, "queued_runs", [DEFAULT_TENANT] * 10, jobs):
        assert used.of_tasks == {"task_queued"}
    for used in await plans(filled, "queued_jobs", list(range(256)), 100):
        assert used.of_tasks == {"task_queued"}


async def test_runs_are_read_by_key_however_rare_those_are_that_are_wanted(
    filled: Connection,
) -> None:
    (job,) = await some_jobs(filled, 1)
    now = await database_now(filled)
    for chosen in ((None,) * 4, ([0], None, None, None), (None, [0], True, False)):
        for window in (51, 2_000):
            args = [DEFAULT_TENANT, job, now, 51, window, *chosen]
            for used in await plans(filled, "runs", *args):
                assert used.of_tasks >= {"task_pkey"}
                assert not {name for name in used.scanned if name.startswith("task")}
                assert "occurrence" not in used.scanned


async def test_withdrawing_reads_only_the_runs_of_the_job_that_have_not_started(
    filled: Connection,
) -> None:
    (job,) = await some_jobs(filled, 1)
    now = await database_now(filled)
    for after in (None, now):
        for used in await plans(filled, "withdraw_runs", DEFAULT_TENANT, job, after, [0]):
            of_tasks = {name for name in used.of_tasks if "payload" not in name}
            assert of_tasks == {"task_unstarted"}


_HISTORIES = """
INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id)
SELECT md5((n % 1000)::text)::uuid, gnomon.now() - make_interval(secs => n), 'default',
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint), 12, '0')
        || '7' || substr(md5('h' || n), 1, 3) || '8' || substr(md5('h' || n), 4, 15))::uuid
FROM generate_series(1, 50000) AS n
"""
# Rows of the ledger that were read from end to end, or by each index.
_LEDGER_READS = """
SELECT relname, pg_stat_get_xact_tuples_returned(oid) FROM pg_class
WHERE relnamespace = 'gnomon'::regnamespace AND relkind IN ('r', 'i')
  AND relname ~ '^occurrence'
"""


@pytest.mark.parametrize("analyzed", [False, True])
async def test_latest_runs_are_read_by_key_and_no_further_than_asked(
    connection: Connection, analyzed: bool
) -> None:
    """1 000 jobs with 50 runs each: a page of 50 reads 50 entries each at the most, by its key."""
    await connection.execute(_HISTORIES)
    await connection.execute(
        """
        INSERT INTO gnomon.task_archive (
            tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
            timeout_seconds, task_type, target
        )
        SELECT 'default', task_id, 2, 10, 0, fire_at, fire_at, 1, 1, 30, 'x', '{}'
        FROM gnomon.occurrence
        """
    )
    if analyzed:
        await connection.execute("ANALYZE gnomon.occurrence, gnomon.task_archive, gnomon.task")
    rows = await connection.fetch(
        "SELECT md5(n::text)::uuid AS id FROM generate_series(1, 50) AS n"
    )
    args = [DEFAULT_TENANT, [row["id"] for row in rows], 30, 100]
    for mode in ("force_custom_plan", "force_generic_plan"):
        async with connection.transaction():
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            plan = await explained(connection, "latest_runs", *args, options=", ANALYZE")
        # Partitions that no id falls into are pruned, however they would have been read.
        read = [
            node
            for node in nodes_of(plan)
            if node.get("Relation Name", "").startswith("task") and node["Actual Loops"]
        ]
        assert {node["Node Type"] for node in read} == {"Index Scan"}
        async with connection.transaction():
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            before = dict(await connection.fetch(_LEDGER_READS))
            assert len(await connection.fetch(query("latest_runs"), *args)) == 50 * 30
            after = dict(await connection.fetch(_LEDGER_READS))
        read_rows = {
            name: after[name] - before[name] for name in after if after[name] > before[name]
        }
        # Of each job 30 for the strip, and all of its 50 for its success: by the key, not by scans.
        assert read_rows
        assert all(name.endswith("_pkey") for name in read_rows)
        assert sum(read_rows.values()) <= 50 * (30 + 50)
