-- A page of events, newest first. At most 10 000 are examined, however rare the filter: a last row
-- without a kind says where the examining stopped, where it stopped before the end.
-- $1 tenant, $2 older than this id, $3 events a page and one more, $4 kind, $5 cron job, $6 whether
-- somebody has taken note of it, $7 task type, $8 kinds, $9 kinds that are not wanted. Null filters
-- nothing.
WITH page AS MATERIALIZED (
    SELECT e.*
    FROM (
        SELECT {events}
        FROM gnomon.event
        WHERE tenant_id = $1 AND id < $2
        ORDER BY id DESC
        LIMIT 10000
    ) AS e
    WHERE ($4::text IS NULL OR e.kind = $4)
      AND ($5::uuid IS NULL OR e.cron_job_id = $5)
      AND ($6::boolean IS NULL OR (e.acknowledged_at IS NOT NULL) = $6)
      AND ($7::text IS NULL OR e.detail ->> 'task_type' = $7)
      AND ($8::text[] IS NULL OR e.kind = ANY ($8))
      AND ($9::text[] IS NULL OR e.kind <> ALL ($9))
    ORDER BY e.id DESC
    LIMIT $3
), stop AS (
    SELECT id
    FROM gnomon.event
    WHERE tenant_id = $1 AND id < $2 AND (SELECT count(*) FROM page) < $3
    ORDER BY id DESC
    OFFSET 9999 LIMIT 1
)
SELECT {events} FROM page
UNION ALL
SELECT NULL, id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM stop
-- The mark comes after an event at the same place.
ORDER BY id DESC, kind NULLS LAST
