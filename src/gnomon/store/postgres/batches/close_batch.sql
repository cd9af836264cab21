-- Let nothing more into a batch, which is held.
UPDATE gnomon.batch SET state = 1, closed_at = gnomon.now() WHERE tenant_id = $1 AND id = $2 AND state = 0
