-- The number of changes to what processes cache about tenants, whether authentication is on, why new
-- work is refused, if it is, and when it was said which lanes are crowded, if any is.
SELECT number, authentication, CASE WHEN full_until > gnomon.now() THEN full_why END AS full_why,
    CASE WHEN crowded_at > gnomon.now() - interval '15 seconds' THEN crowded_at END AS crowded_at
FROM gnomon.revision
