-- Signals to one run come one after the other, and none while a node of it begins to wait. $1 the run.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.workflow_signal' || $1::uuid, 0))
