-- Background work that fails for a tenant, as far as it concerns one task. $1/$2 the key.
SELECT t.chore, t.name AS node, t.since, t.subject, t.error, t.sqlstate, t.remedy
FROM gnomon.trouble AS t
WHERE t.tenant_id = $1 AND t.known_until > gnomon.now()
  AND (
    t.subject = 'task ' || $2::uuid
    OR t.subject = (
        SELECT 'cron job ' || k.cron_job_id FROM gnomon.task AS k
        WHERE k.tenant_id = $1 AND k.id = $2
    )
    OR t.subject !~ '^(task|cron job) '
  )
ORDER BY t.since
LIMIT 10
