-- No signal comes to this run until the transaction ends: who begins to wait misses none. $1 the run.
SELECT pg_advisory_xact_lock_shared(hashtextextended('gnomon.workflow_signal' || $1::uuid, 0))
