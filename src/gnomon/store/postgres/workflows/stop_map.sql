-- No more elements are made of a mapped node that has ended before its list was expanded; it goes on
-- waiting for those that there are.
UPDATE gnomon.workflow_node
SET waits = waits - (elements - expanded), elements = expanded,
    step = CASE WHEN waits - (elements - expanded) = 0 THEN 1 ELSE 0 END
WHERE tenant_id = $1 AND task_id = $2 AND expanded < elements
