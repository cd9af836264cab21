-- Hold a batch: nobody counts, adds or closes until the transaction ends.
SELECT state FROM gnomon.batch WHERE tenant_id = $1 AND id = $2 FOR UPDATE
