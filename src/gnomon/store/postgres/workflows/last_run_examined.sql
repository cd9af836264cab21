-- The last of the runs that list_runs examines for a page, if there are so many. $3 of this workflow;
-- null: any.
SELECT id
FROM (
    (SELECT id FROM gnomon.workflow_run
     WHERE tenant_id = $1 AND id < $2 AND $3::text IS NULL
     ORDER BY id DESC LIMIT 1 OFFSET 9999)
    UNION ALL
    (SELECT id FROM gnomon.workflow_run
     WHERE tenant_id = $1 AND id < $2 AND workflow = $3
     ORDER BY id DESC LIMIT 1 OFFSET 9999)
) AS r
