-- The schema and the record of migrations stay; so does the role: other databases may use it.
DROP VIEW gnomon.try;
-- Before the tables whose rows they take or return.
DROP FUNCTION gnomon.is_known, gnomon.read_due_jobs;
DROP TABLE
    gnomon.trouble, gnomon.breaker, gnomon.chore, gnomon.node,
    gnomon.limit_window, gnomon.limit_lease, gnomon.limit_bucket, gnomon.limiter,
    gnomon.tenant_storage, gnomon.usage, gnomon.tenant_pace, gnomon.tenant_room,
    gnomon.task_type, gnomon.webhook_secret, gnomon.api_key, gnomon.tenant, gnomon.revised,
    gnomon.revision,
    gnomon.event, gnomon.occurrence, gnomon.cron_job,
    gnomon.idempotency, gnomon.execution, gnomon.task_payload, gnomon.task_archive, gnomon.task;
DROP FUNCTION
    gnomon.wall, gnomon.forget_buckets, gnomon.exchange_permits, gnomon.drop_dead_leases,
    gnomon.fit_stored, gnomon.stored_bytes, gnomon.admit, gnomon.keep_pace, gnomon.hold_pace,
    gnomon.take_room, gnomon.scheduled_tasks, gnomon.distrust_room, gnomon.make_webhook_secret,
    gnomon.new_webhook_secret, gnomon.revise, gnomon.complete_run, gnomon.drop_payloads,
    gnomon.removes_payload, gnomon.read_heads, gnomon.read_flows, gnomon.read_overdue,
    gnomon.read_behind, gnomon.read_ahead, gnomon.in_a_pool, gnomon.keep_pages, gnomon.now;
REVOKE ALL ON SCHEMA gnomon FROM gnomon_tenant;
