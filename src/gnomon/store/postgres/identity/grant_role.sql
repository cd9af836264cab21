-- Let a database role submit for a tenant: $1 role, $2 tenant, $3 task types, $4 functions, $5 hosts.
SELECT gnomon.grant_role($1::text::name, $2, $3::text[], $4::text[], $5::text[])
