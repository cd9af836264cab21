-- Let a node leave. It counts as dead, so that anything that still runs on it is swept.
UPDATE gnomon.node SET dead = true, ended_at = gnomon.now() WHERE incarnation = $1 AND NOT dead
