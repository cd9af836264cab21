"""The server's settings, and why each is what it is.

They are given on the command line, so that what runs is what is written here.
"""

SETTINGS = {
    # A submission is acknowledged when it is on the disk, and not before.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # A laptop that does other things too. The live table and its indexes fit in here; finished
    # tasks are rarely read.
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_connections": "100",
    # Every row is written three times in a short life (submit, claim, settle). Rare checkpoints
    # write each page once instead of many times; 1.8 GB was replayed in 7 s after a crash.
    "max_wal_size": "2GB",
    "min_wal_size": "256MB",
    "checkpoint_timeout": "15min",
    # pglz writes a fifth of the log and takes the processor's time for it; that is the scarcer.
    "wal_compression": "off",
    # Statements are short and prepared: compiling them costs more than running them.
    "jit": "off",
    # Parallel plans gain nothing at this size, and take shared memory that containers lack.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "random_page_cost": "1.1",
    # A queue table is dead rows after a minute. Look often, begin early, do not dawdle.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_insert_scale_factor": "0.1",
    "autovacuum_vacuum_cost_limit": "2000",
    # A forgotten transaction in a psql window would keep every dead row alive.
    "idle_in_transaction_session_timeout": "10min",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Faults only. Statements and details are left out: they would carry payloads into the log.
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "logging_collector": "off",
}
