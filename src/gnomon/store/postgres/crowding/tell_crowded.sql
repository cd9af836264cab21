-- Tell all processes that lanes are crowded ($1), or that none is.
UPDATE gnomon.revision SET crowded_at = CASE WHEN $1::boolean THEN gnomon.now() END
WHERE $1::boolean OR crowded_at IS NOT NULL
