-- Forget buckets of limits that nobody has asked for in an hour, $1 at the most.
SELECT gnomon.forget_buckets($1) AS gone
