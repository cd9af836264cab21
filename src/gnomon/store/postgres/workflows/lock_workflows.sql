-- Those who define workflows of a tenant do so one after the other.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon.workflow' || $1, 0))
