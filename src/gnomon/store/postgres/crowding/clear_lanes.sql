-- Take back what was said of all lanes.
DELETE FROM gnomon.crowded_lane
