-- Take room of a tenant's quotas: see gnomon.admit.
SELECT * FROM gnomon.admit($1, $2, $3, $4, $5, $6)
