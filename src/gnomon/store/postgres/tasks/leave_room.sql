-- Give back room that this transaction has taken of a tenant's quota and does not need: to the row
-- that it holds in any case (see gnomon.take_room).
UPDATE gnomon.tenant_room SET room = room + $2
WHERE tenant_id = $1 AND slot = pg_backend_pid() % 8
