-- Keys of operators: of the installation, and of no tenant. Row-level security shows a tenant only
-- rows that name it, so these are hidden from all of them.
ALTER TABLE gnomon.api_key ALTER COLUMN tenant_id DROP NOT NULL;
UPDATE gnomon.api_key SET roles = array_remove(roles, 'operator') WHERE 'operator' = ANY (roles);
ALTER TABLE gnomon.api_key ADD CONSTRAINT operators_have_no_tenant CHECK (
    CASE WHEN tenant_id IS NULL
        THEN roles = ARRAY['operator'] AND num_nonnulls(task_types, functions, hosts) = 0
        ELSE 'operator' <> ALL (roles)
    END
);

-- By the maker alone, because a null tenant cannot be looked up by equality.
DROP INDEX gnomon.api_key_made_by;
CREATE INDEX api_key_made_by ON gnomon.api_key (made_by) WHERE made_by IS NOT NULL;
