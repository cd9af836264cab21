-- Store a batch of new tasks; large payloads go to their own table, once and for all.
-- None is due before it is stored, however long it waited for that: the repair scan looks no further
-- back than the oldest transaction that is still writing.
-- Columns that no task of the batch has a value for are empty, which `unnest` reads as NULL; those
-- that every task has the same value in hold it once.
-- Of tenants that have quotas, those are stored that there is room for, by their place among the
-- tenant's tasks in this batch ($32). $33 the tenants, $34 how many tasks each has here, $35 and $36
-- their quotas, $37 whether it is all or none, $38 how long to wait (see gnomon.admit); $39 their
-- quotas of bytes, $40 the sizes of their tasks (see gnomon.fit_stored). $41 the size of each task.
-- Gives the id and the flow of each task that was stored, then what each such tenant was let in.
WITH fitting AS MATERIALIZED (
    SELECT * FROM gnomon.fit_stored(
        $33::text[], $34::integer[], $39::bigint[], $40::bigint[], $37::boolean
    )
), admitted AS MATERIALIZED (
    SELECT a.*, f.fit, f.stored
    FROM gnomon.admit(
        $33, (SELECT coalesce(array_agg(fit ORDER BY place), '{}') FROM fitting), $35::bigint[],
        $36::integer[], $37, $38::integer
    ) AS a
    JOIN fitting AS f ON a.tenant_id = ($33)[f.place]
), offered AS MATERIALIZED (
    SELECT coalesce(tenant_id, ($1::text[])[1]) AS tenant_id, payload, {new_task}, payload_size,
        place, size
    FROM unnest(
        $1::text[], $13::json[], {new_task_arrays}, $31::integer[], $32::integer[], $41::bigint[]
    ) AS s (tenant_id, payload, {new_task}, payload_size, place, size)
), submitted AS MATERIALIZED (
    SELECT o.* FROM offered AS o LEFT JOIN admitted AS a USING (tenant_id)
    WHERE o.place IS NULL OR o.place <= a.passed
), apart AS (
    INSERT INTO gnomon.task_payload (tenant_id, task_id, payload)
    SELECT tenant_id, id, payload FROM submitted WHERE payload_size IS NOT NULL
), metered AS (
    INSERT INTO gnomon.usage AS u (
        tenant_id, day, session, submissions, stored_bytes, held_bytes
    )
    SELECT tenant_id, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(),
        count(*), coalesce(sum(octet_length(payload::text)), 0), sum(size)
    FROM submitted
    GROUP BY tenant_id
    ON CONFLICT (tenant_id, day, session) DO UPDATE
    SET submissions = u.submissions + excluded.submissions,
        stored_bytes = u.stored_bytes + excluded.stored_bytes,
        held_bytes = u.held_bytes + excluded.held_bytes
), stored AS (
    INSERT INTO gnomon.task (tenant_id, payload_size, payload, {new_task}, shard, flow)
    SELECT tenant_id, payload_size, CASE WHEN payload_size IS NULL THEN payload END,
        {new_task_values}, {new_task_place}
    FROM submitted AS s
    RETURNING id, flow
)
SELECT id, flow, NULL AS tenant_id, NULL AS passed, NULL AS room, NULL AS pace, NULL AS fit,
    NULL AS stored
FROM stored
UNION ALL
SELECT NULL, NULL, tenant_id, passed, room, pace, fit, stored FROM admitted
