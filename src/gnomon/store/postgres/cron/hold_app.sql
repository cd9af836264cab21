-- Let workers of an app register one after the other. $1 the app, $2 its tenant.
SELECT pg_advisory_xact_lock(hashtextextended('gnomon app ' || $2::text || ' ' || $1::text, 0))
