-- How often what processes remember about tenants has changed.
SELECT number FROM gnomon.revision
