-- Have the worker of a session ($1) of a tenant ($2) told to take nothing more, and to leave.
UPDATE gnomon.node SET draining = true
WHERE incarnation = $1 AND tenant_id = $2 AND kind = 2 AND NOT dead
RETURNING incarnation
