-- Go on from $1 to $2, unless somebody else has.
UPDATE gnomon.subscription_cursor SET number = $2 WHERE number IS NOT DISTINCT FROM $1 RETURNING one
