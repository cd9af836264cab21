-- Count what is noted of batches, and start what may start: see gnomon.pass_batches. $1/$2 the keys.
SELECT *, false AS ended FROM gnomon.pass_batches($1::text[], $2::uuid[], '{}', '{}', '{}')
