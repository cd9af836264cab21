-- Tenants that have changed after a revision.
SELECT tenant FROM gnomon.revised WHERE number > $1
