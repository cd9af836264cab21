-- Stop a bulk operation: after the chunk that is under way, which this waits for, nothing changes.
UPDATE gnomon.bulk_operation SET status = 'STOPPED', ended_at = (SELECT gnomon.now())
WHERE tenant_id = $1 AND id = $2 AND status = 'RUNNING'
