-- The number of changes to what processes cache about tenants, whether authentication is on, and why
-- new work is refused, if it is.
SELECT number, authentication, CASE WHEN full_until > gnomon.now() THEN full_why END AS full_why
FROM gnomon.revision
