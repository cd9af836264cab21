-- Remove notes of feeds that are removed, $1 at the most.
DELETE FROM gnomon.feed_note AS n
USING (
    SELECT s.feed_id, s.place
    FROM gnomon.feed AS f
    CROSS JOIN LATERAL (
        SELECT w.feed_id, w.place FROM gnomon.feed_note AS w WHERE w.feed_id = f.id ORDER BY w.place LIMIT $1
    ) AS s
    WHERE f.removed_at IS NOT NULL
    LIMIT $1
) AS s
WHERE n.feed_id = s.feed_id AND n.place = s.place
