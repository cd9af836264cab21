-- Count the tasks of a tenant, where its room is not known or used up: $1 tenant, $2 its quota.
SELECT * FROM gnomon.take_room($1, $2, 0, false)
