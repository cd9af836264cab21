-- Take that back: $1 role. Gives whether it had a grant.
SELECT gnomon.revoke_role($1::text::name) AS revoked
