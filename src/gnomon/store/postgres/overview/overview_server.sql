-- The size of the database, and how far its standbys are behind. The lag is null where there is none, and
-- where the role may not see it (pg_read_all_stats): then all that is told of a standby is that it is there.
SELECT pg_database_size(current_database()) AS bytes,
    (
        SELECT max(coalesce(extract(epoch FROM r.replay_lag), 0))::float8
        FROM pg_stat_replication AS r
        WHERE r.state = 'streaming'
    ) AS lag_seconds
