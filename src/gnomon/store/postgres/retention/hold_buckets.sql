-- Lock those of the buckets $1 that nobody uses at the moment: what is read about them afterwards is
-- the truth (see gnomon.exchange_permits).
SELECT id FROM gnomon.limit_bucket WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
