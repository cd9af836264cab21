-- One task, wherever it is: live and finished in one snapshot, or one on its way between them
-- would be seen nowhere.
SELECT t.*, coalesce(t.inline_payload, p.payload) AS payload, (SELECT gnomon.now()) AS now,
    g.fraction AS progress_fraction, g.message AS progress_message, g.at AS progress_at,
    r.resolved_at, r.resolved_by, r.note, coalesce(t.live_fingerprint, r.fingerprint) AS fingerprint
FROM (
    SELECT
        {carried}, state, due_at, started_at, NULL::timestamptz AS finished_at, attempt,
        payload_size, payload AS inline_payload, false AS payload_removed, last_error,
        NULL::json AS result, NULL::text AS resolution, cancel_requested,
        fingerprint AS live_fingerprint
    FROM gnomon.task
    WHERE tenant_id = $1 AND id = $2
    UNION ALL
    SELECT
        {carried}, state, execute_at, started_at, finished_at, attempt,
        payload_size, payload, payload_removed, last_error,
        result, resolution, false, NULL
    FROM gnomon.task_archive
    WHERE tenant_id = $1 AND id = $2
) AS t
LEFT JOIN gnomon.task_payload AS p
    ON t.payload_size IS NOT NULL AND p.tenant_id = $1 AND p.task_id = $2
-- What a stale execution has reported is of another fence.
LEFT JOIN gnomon.progress AS g
    ON t.state = 1 AND g.tenant_id = $1 AND g.task_id = $2 AND g.fence = t.fence
LEFT JOIN gnomon.resolution AS r ON t.state = 13 AND r.tenant_id = $1 AND r.task_id = $2
