-- Add to the bytes that a tenant has ($2).
INSERT INTO gnomon.usage AS u (tenant_id, day, session, held_bytes)
VALUES ($1, (SELECT (gnomon.now() AT TIME ZONE 'UTC')::date), pg_backend_pid(), $2)
ON CONFLICT (tenant_id, day, session) DO UPDATE SET held_bytes = u.held_bytes + excluded.held_bytes
