-- A vacuum reads every index from end to end, whatever little is dead. By a fiftieth, ten million scheduled
-- tasks made it 13 µs for each task that was run beside them; small tables are vacuumed by the threshold.
ALTER TABLE gnomon.task SET (autovacuum_vacuum_scale_factor = 0.1);
