-- Say in which lanes new tasks are refused. $1 tenants, $2 lanes, $3 how many tasks wait there, $4 how
-- many may, $5 whether that is the tenant's share of all, $6 seconds until there may be room.
INSERT INTO gnomon.crowded_lane (tenant, lane, ready, most, shared, wait_seconds)
SELECT * FROM unnest($1::text[], $2::smallint[], $3::integer[], $4::integer[], $5::boolean[], $6::integer[])
