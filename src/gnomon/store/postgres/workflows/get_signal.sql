-- A signal that was sent to a run.
SELECT name, data, sent_at, sent_by
FROM gnomon.workflow_signal
WHERE tenant_id = $1 AND run_id = $2 AND name = $3
