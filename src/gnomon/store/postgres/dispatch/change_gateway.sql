-- Change what a gateway serves: $2 slots, $3 its pool.
UPDATE gnomon.node SET slots = $2, serves = $3::jsonb WHERE incarnation = $1 AND NOT dead
