-- Declare a node dead, if it has not renewed since this beat.
UPDATE gnomon.node SET dead = true, ended_at = gnomon.now()
WHERE incarnation = $1 AND beat = $2 AND NOT dead
RETURNING incarnation
