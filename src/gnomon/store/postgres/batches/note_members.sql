-- Note tasks that this transaction has put into batches. $1/$2 the keys, $3 how many.
INSERT INTO gnomon.batch_note (tenant_id, batch_id, added)
SELECT * FROM unnest($1::text[], $2::uuid[], $3::integer[])
