-- Why and since when a breaker is open. Null: a node of an older version has written the row.
ALTER TABLE gnomon.breaker
    ADD COLUMN opened_at timestamptz,
    ADD COLUMN calls integer,           -- of the minute before it opened
    ADD COLUMN failures integer,        -- of those
    ADD COLUMN error text;              -- of the last failed call: what opened it, or a failed probe
