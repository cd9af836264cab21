-- Bring a node's permits and starts of many buckets to what it uses and wants, as far as they go.
SELECT place, now, permits, allowed, contended, again, starts, since, until
FROM gnomon.exchange_permits(
    $1, $2, $3::text[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::integer[],
    $9::integer[], $10::float8[], $11::integer[], $12::timestamptz[], $13::integer[],
    $14::timestamptz[]
)
