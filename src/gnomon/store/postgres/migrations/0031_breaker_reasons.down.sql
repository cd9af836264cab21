ALTER TABLE gnomon.breaker
    DROP COLUMN opened_at,
    DROP COLUMN calls,
    DROP COLUMN failures,
    DROP COLUMN error;
