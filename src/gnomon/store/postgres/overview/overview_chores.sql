-- For how long some chores ($1) have had no holder; 0 where they have one.
SELECT name, greatest(0, extract(epoch FROM (SELECT gnomon.now()) - held_until))::float8 AS seconds
FROM gnomon.chore
WHERE name = ANY ($1::text[]) AND isfinite(held_until)
