"""What is behind the pages beside tasks: activity, dead letters, events, jobs, and the rest."""

import string
from typing import Any, TypeAlias

import asyncpg
import msgspec

from gnomon.model.insight.activity import DELAYS
from gnomon.model.outcomes import fingerprint
from gnomon.model.tasks.lifecycle import State

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

RUNS_OF_JOB = 50
OLDEST = 100  # tasks that have the tag `old`, or die of it


class RowAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what is there beside tasks."""

    minutes: int  # of activity
    hours: int
    named_types: int  # with rows of their own, of the tenant that looks; of others one
    dead: int
    groups: int
    resolved: int
    events: int
    jobs: int
    operations: int


ALL = RowAmounts(
    minutes=1_440, hours=720, named_types=50, dead=100_000, groups=10_000, resolved=50_000,
    events=100_000, jobs=1_000, operations=1_000,
)  # fmt: skip
FEW = RowAmounts(
    minutes=30, hours=10, named_types=5, dead=200, groups=20, resolved=50, events=100, jobs=5,
    operations=5,
)  # fmt: skip

# The tables keep what PostgreSQL knows of them now: nothing.
_UNWATCHED = """
DO $$
DECLARE part regclass;
BEGIN
    FOR part IN SELECT oid FROM pg_class
        WHERE relnamespace = 'gnomon'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', part);
    END LOOP;
END $$
"""
_ACTIVITY = f"""
INSERT INTO gnomon.activity (
    tenant_id, span, task_type, starts_at, lane, submitted, started, succeeded, failed, dead,
    seconds, delays
)
SELECT k.tenant, $1::smallint, k.task_type, t.at, 2, 60, 60, 55, 5, 1, 12.5,
       array_fill(3::bigint, ARRAY[{DELAYS}])
FROM (
    SELECT 'default' AS tenant, CASE n WHEN 0 THEN '' ELSE 'type-' || n END AS task_type
    FROM generate_series(0, $3::integer) AS n
    UNION ALL
    SELECT 'tenant-' || n, each FROM generate_series(1, $4::integer - 1) AS n,
        unnest(ARRAY['', 'type-1']) AS each
) AS k, (
    SELECT date_trunc('hour', gnomon.now(), 'UTC')
           + CASE $1::smallint WHEN 1 THEN interval '1 hour' ELSE interval '0' END
           - make_interval(mins => $1::smallint * n) AS at
    FROM generate_series(1, $2::integer) AS n
) AS t
ON CONFLICT DO NOTHING
"""
# A fifth of the letters of the tenant that looks died of one error.
_DEAD = f"""
INSERT INTO gnomon.task (
    tenant_id, id, state, execute_at, due_at, task_type, target, payload, tags, last_error,
    attempt, fingerprint
)
SELECT tenant, uuidv7(died - now()), {State.DEAD:d}, died, died, g.task_type,
       '{{"type": "python", "function": "noop"}}', '{{"n": 1}}',
       CASE WHEN n <= {OLDEST} THEN '["old"]'::jsonb END, g.error, 4, g.fingerprint
FROM (
    SELECT n, CASE WHEN n % 2 = 0 THEN 'default' ELSE 'tenant-' || 1 + n / 2 % ($3::integer - 1)
              END AS tenant,
           CASE WHEN n % 10 = 2 THEN 0 ELSE n * 7919::bigint % $2::integer END AS place,
           now() - interval '5 days' * (1 - n / $1::float8) AS died
    FROM generate_series(1, $1::integer) AS n
) AS r
JOIN unnest($4::text[], $5::text[], $6::bigint[]) WITH ORDINALITY
    AS g (task_type, error, fingerprint, number) ON g.number = r.place + 1
ORDER BY n
"""
_RESOLVED = f"""
WITH letters AS (
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, started_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target, payload, last_error, resolution
    )
    SELECT 'default', uuidv7(age), 2, {State.RESOLVED:d}, 0, now() + age, now() + age, now() + age,
           1, 4, 30, 'type-' || n % 50, '{{"type": "python", "function": "noop"}}', '{{"n": 1}}',
           'ValueError: order ' || n, 'archived'
    FROM (SELECT n, -interval '20 hours' * (1 - n / $1::float8) AS age
          FROM generate_series(1, $1::integer) AS n) AS r
    RETURNING id, finished_at
)
INSERT INTO gnomon.resolution (tenant_id, task_id, resolved_at, resolved_by, note, fingerprint)
SELECT 'default', id, finished_at, 'bench', 'done by hand', 1 FROM letters
"""
# Half of them nobody has taken note of; those of one kind are old.
_EVENTS = """
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail, acknowledged_at, acknowledged_by)
SELECT CASE WHEN n % 4 = 0 THEN 'tenant-' || 1 + n % ($2::integer - 1) ELSE 'default' END,
       uuidv7(age),
       CASE WHEN n < 50 THEN 'cron.sla_missed' ELSE 'tasks.dead_lettered' END, now() + age,
       json_build_object('task_type', 'type-' || n % 1000, 'count', 3),
       CASE WHEN n % 2 = 0 THEN now() END, CASE WHEN n % 2 = 0 THEN 'bench' END
FROM (SELECT n, -interval '5 days' * (1 - n / $1::float8) AS age
      FROM generate_series(1, $1::integer) AS n) AS r
"""
# As one that the API has made, and paused, so that none fires while it is measured.
_JOBS = f"""
WITH jobs AS (
    INSERT INTO gnomon.cron_job (
        tenant_id, id, name, version, runs, paused_at, pause_reason, created_at, updated_at, tags,
        definition
    )
    SELECT 'default', uuidv7(), 'job-' || n, 1, {RUNS_OF_JOB}, now(), 'bench', now(), now(),
           CASE WHEN n = 1 THEN '["old"]'::jsonb ELSE '["bulk"]'::jsonb END, j.definition
    FROM generate_series(1, $1::integer) AS n, gnomon.cron_job AS j
    WHERE j.tenant_id = 'default' AND j.name = 'stock'
    RETURNING id, substr(name, 5)::integer AS number
), tasks AS MATERIALIZED (
    SELECT id, (row_number() OVER (ORDER BY id DESC))::integer AS number
    FROM (SELECT id FROM gnomon.task_archive WHERE tenant_id = 'default'
          ORDER BY id DESC LIMIT $1::integer * {RUNS_OF_JOB}) AS newest
)
INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id, skipped)
SELECT j.id, date_trunc('minute', now()) - make_interval(mins => 20 * r), 'default', t.id,
       CASE WHEN t.id IS NULL THEN 0 END
FROM jobs AS j
CROSS JOIN generate_series(1, {RUNS_OF_JOB}) AS r
LEFT JOIN tasks AS t ON t.number = (j.number - 1) * {RUNS_OF_JOB} + r
"""
_OPERATIONS = """
INSERT INTO gnomon.bulk_operation (
    tenant_id, id, asked, started_at, ended_at, status, position, total, capped, changed
)
SELECT o.tenant_id, uuidv7(make_interval(mins => -n)), o.asked, now(), now(), 'FINISHED',
       '00000000-0000-0000-0000-000000000000', n, false, n
FROM generate_series(1, $1::integer) AS n,
    (SELECT * FROM gnomon.bulk_operation WHERE tenant_id = 'default' LIMIT 1) AS o
"""
_FEW = (
    """
    INSERT INTO gnomon.session (name, sealed, ends_at)
    SELECT sha256(n::text::bytea), '\\x00', now() + interval '1 hour'
    FROM generate_series(1, 1000) AS n
    """,
    """
    INSERT INTO gnomon.saved_view (tenant_id, name, filter, columns, created_at)
    SELECT 'default', 'view ' || n, '{"status": "READY"}', '{}', now()
    FROM generate_series(1, 50) AS n
    """,
    """
    INSERT INTO gnomon.api_key (id, tenant_id, name, hash, hint, roles)
    SELECT uuidv7(), 'default', 'key ' || n, sha256(n::text::bytea), 'abcd', '{read}'
    FROM generate_series(1, 500) AS n
    """,
    """
    INSERT INTO gnomon.task_type (tenant_id, name, schema)
    SELECT 'default', 'type-' || n, '{"type": "object"}' FROM generate_series(1, 1000) AS n
    """,
    """
    INSERT INTO gnomon.limiter (tenant_id, name, task_type, concurrency)
    SELECT 'default', 'limit-' || n, 'type-' || n, 5 FROM generate_series(1, 98) AS n
    """,
    """
    INSERT INTO gnomon.usage (tenant_id, day, session, submissions, executions, compute_seconds)
    SELECT t.id, current_date - n, 0, 1000, 1000, 200
    FROM gnomon.tenant AS t, generate_series(1, 90) AS n
    """,
)


async def leave_unanalyzed(connection: Connection) -> None:
    await connection.execute(_UNWATCHED)


async def load_rows(connection: Connection, amounts: RowAmounts, tenants: int, types: int) -> None:
    """Where there is already one recurring job and one bulk operation, as the API makes them."""
    for span, number in ((1, amounts.minutes), (60, amounts.hours)):
        await connection.execute(_ACTIVITY, span, number, amounts.named_types, tenants)
    groups = _groups(amounts.groups, types)
    await connection.execute(_DEAD, amounts.dead, amounts.groups, tenants, *groups)
    await connection.execute(_RESOLVED, amounts.resolved)
    await connection.execute(_EVENTS, amounts.events, tenants)
    await connection.execute(_JOBS, amounts.jobs)
    await connection.execute(_OPERATIONS, amounts.operations)
    for statement in _FEW:
        await connection.execute(statement)


def _groups(count: int, types: int) -> tuple[list[str], list[str], list[Any]]:
    task_types = [f"type-{n % types}" for n in range(count)]
    errors = [f"ValueError: {_word(n)} is unknown" for n in range(count)]
    prints = [fingerprint.fingerprint(*each) for each in zip(task_types, errors, strict=True)]
    return task_types, errors, prints


def _word(number: int) -> str:
    """A word of its own for each number: digits in errors make no group."""
    letters = string.ascii_lowercase
    word = ""
    while number or not word:
        number, place = divmod(number, len(letters))
        word += letters[place]
    return f"x{word}x"
