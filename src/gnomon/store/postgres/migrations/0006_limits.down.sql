DROP FUNCTION gnomon.forget_buckets(integer);
DROP FUNCTION gnomon.exchange_permits(
    uuid, bigint, text[], text[], text[], integer[], integer[], integer[], integer[], float8[],
    integer[], timestamptz[], integer[], timestamptz[]
);
DROP FUNCTION gnomon.drop_dead_leases(bigint);
DROP TABLE gnomon.limit_window, gnomon.limit_lease, gnomon.limit_bucket, gnomon.limiter;
