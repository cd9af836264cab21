-- The fingerprints of dead letters that this transaction has locked. $1 tenants, $2 ids, $3 fingerprints.
UPDATE gnomon.task AS t
SET fingerprint = n.fingerprint
FROM unnest($1::text[], $2::uuid[], $3::bigint[]) AS n (tenant_id, id, fingerprint)
WHERE t.tenant_id = n.tenant_id AND t.id = n.id
