-- The time, and how often tasks were taken back until then at least: see take_back. The time is read first.
SELECT date_part('epoch', m.now) AS now, r.number
FROM (SELECT gnomon.now() AS now OFFSET 0) AS m
CROSS JOIN LATERAL (
    SELECT last_value + is_called::integer AS number FROM gnomon.recalls WHERE m.now IS NOT NULL OFFSET 0
) AS r
