-- Forget a saved view.
DELETE FROM gnomon.saved_view WHERE tenant_id = $1 AND name = $2 RETURNING name
