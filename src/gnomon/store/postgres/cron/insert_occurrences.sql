-- Enter fires into the ledger. One that is there already stays as it is, unless it was missed and
-- now gets its run after all. Gives those that were entered.
INSERT INTO gnomon.occurrence AS o (
    cron_job_id, fire_at, tenant_id, kind, task_id, skipped, missed, sla_at
)
SELECT * FROM unnest(
    $1::uuid[], $2::timestamptz[], $3::text[], $4::smallint[], $5::uuid[], $6::smallint[],
    $7::integer[], $8::timestamptz[]
)
ON CONFLICT (cron_job_id, fire_at) DO UPDATE
SET kind = excluded.kind, task_id = excluded.task_id, skipped = excluded.skipped,
    missed = excluded.missed, sla_at = excluded.sla_at
WHERE o.task_id IS NULL AND excluded.task_id IS NOT NULL
RETURNING o.cron_job_id, o.fire_at
