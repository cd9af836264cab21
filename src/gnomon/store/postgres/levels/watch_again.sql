-- Look at these tasks again at $3. $1/$2 the keys, locked by this transaction; $4 whose start is judged,
-- $5 of which an execution was slow, $6 the fence of the latest that was told, if any.
UPDATE gnomon.watched_task AS w
SET look_at = k.look_at,
    start_by = CASE WHEN NOT k.start_judged THEN w.start_by END,
    start_judged = w.start_judged OR k.start_judged,
    slow = w.slow OR k.slow,
    told_fence = greatest(w.told_fence, k.told_fence)
FROM unnest(
    $1::text[], $2::uuid[], $3::timestamptz[], $4::boolean[], $5::boolean[], $6::bigint[]
) AS k (tenant_id, task_id, look_at, start_judged, slow, told_fence)
WHERE w.tenant_id = k.tenant_id AND w.task_id = k.task_id
