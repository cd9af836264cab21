-- The lanes in which new tasks are refused.
SELECT tenant, lane, ready, most, shared, wait_seconds FROM gnomon.crowded_lane
