-- Store a new key, by its hash.
INSERT INTO gnomon.api_key (
    id, tenant_id, name, hash, hint, roles, task_types, functions, hosts, created_by, made_by,
    expires_at, queues, created_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, gnomon.now())
RETURNING *
