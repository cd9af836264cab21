-- Facts that show whether the server of this connection runs in a folder that we can see, and how large the
-- database is. $1 whether that is asked for: every file of it is looked at.
SELECT
    current_setting('port')::integer AS port,
    extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at,
    CASE WHEN pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')
        THEN current_setting('data_directory') END AS folder,
    CASE WHEN $1::boolean THEN pg_database_size(current_database()) END AS database
