-- Request the cancellation of a running run, and notify its node. One whose row
-- is busy is being settled, or is asked again.
WITH chosen AS MATERIALIZED (
    SELECT ctid FROM gnomon.task
    WHERE tenant_id = $1 AND id = $2 AND state + 0 = 1
    FOR UPDATE SKIP LOCKED
)
UPDATE gnomon.task AS t
SET cancel_requested = true
WHERE t.ctid = ANY (ARRAY(SELECT ctid FROM chosen))
RETURNING pg_notify($3, $1 || E'\t' || replace(t.id::text, '-', ''))
