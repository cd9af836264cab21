-- Take a chore, or keep it: one holder at a time.
INSERT INTO gnomon.chore AS c (name, holder, held_until)
SELECT $1, $2, m.now + make_interval(secs => $3::float8) FROM (SELECT gnomon.now() AS now) AS m
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, held_until = excluded.held_until
WHERE c.holder = excluded.holder OR c.held_until < (SELECT gnomon.now())
RETURNING holder
