-- A worker session, living or dead, as its row says.
SELECT incarnation, name, slots, serves, tenant_id, secret, gateway, dead, draining
FROM gnomon.node WHERE incarnation = $1 AND kind = 2
