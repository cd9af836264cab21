-- All tenants.
SELECT id, plan, weight, quotas, created_at FROM gnomon.tenant
