-- Whether requests need a key or a token, for the whole installation: nodes guard the addresses that
-- they call by it, so it must not depend on how each process was started. Read twice a second, with
-- the number. Where there are keys, somebody has meant them to be asked for.
ALTER TABLE gnomon.revision ADD COLUMN authentication boolean NOT NULL DEFAULT false;
UPDATE gnomon.revision SET authentication = EXISTS (SELECT FROM gnomon.api_key);

-- Networks that are not public and that webhooks of the tenant may reach all the same, as CIDR.
ALTER TABLE gnomon.tenant ADD COLUMN targets_allow text[] NOT NULL DEFAULT '{}';
