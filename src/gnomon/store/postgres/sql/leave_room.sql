-- Give back room that this transaction has taken of a tenant's quota and does not need.
UPDATE gnomon.tenant_room SET room = room + $2 WHERE tenant_id = $1
