ALTER TABLE gnomon.task SET (autovacuum_vacuum_scale_factor = 0.02);
