-- A node goes of its own will. It counts as dead, so that anything still in its name is swept.
UPDATE gnomon.node SET dead = true, ended_at = gnomon.now() WHERE incarnation = $1 AND NOT dead
