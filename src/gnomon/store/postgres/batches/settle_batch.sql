-- Nothing is left to do about a batch, unless a member of a cancelled one has not ended, or a callback has
-- neither started nor ended that must. $1 tenant, $2 id.
UPDATE gnomon.batch AS b SET step = false
WHERE b.tenant_id = $1 AND b.id = $2 AND b.step
  AND NOT (b.state = 2 AND EXISTS (
      SELECT FROM gnomon.task AS t
      WHERE t.tenant_id = $1 AND t.batch_id = $2 AND t.workflow_node IS NULL AND t.state < 4
        AND NOT (t.state = 1 AND t.cancel_requested)
  ))
  AND NOT EXISTS (
      SELECT FROM gnomon.task AS t
      WHERE t.tenant_id = $1 AND t.state + 0 = 3 AND (
          (t.id = b.on_complete AND (b.state > 1 OR b.completed_at IS NOT NULL))
          OR (t.id = b.on_success AND (
              b.state > 1 OR (b.finished_at IS NOT NULL AND (b.succeeded = b.total OR b.dead = 0))
          ))
      )
  )
