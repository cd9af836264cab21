-- The last of the batches that list_batches examines for a page, if there are so many.
SELECT id FROM gnomon.batch WHERE tenant_id = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET 9999
