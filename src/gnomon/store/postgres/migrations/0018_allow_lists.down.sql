-- Without its lists a key could call everything: it ends instead.
UPDATE gnomon.api_key SET revoked_at = coalesce(revoked_at, gnomon.now())
WHERE functions IS NOT NULL OR hosts IS NOT NULL;
ALTER TABLE gnomon.api_key DROP COLUMN functions, DROP COLUMN hosts, DROP COLUMN made_by;
ALTER TABLE gnomon.tenant DROP COLUMN functions, DROP COLUMN hosts;
